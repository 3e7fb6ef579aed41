// Memory that the calls of one object hand on to each other.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace densefield {

// Calls that run at once lease an item each, calls in turn the same one. Nobody waits for the lock: whoever finds it taken
// makes an item of its own and drops it afterwards. So a process that was forked while it was taken goes on.
template <class Item>
class WorkspacePool {
 public:
  class Lease {
   public:
    explicit Lease(WorkspacePool& owner) : owner_(owner) {
      if (const std::unique_lock lock(owner_.mutex_, std::try_to_lock); lock && !owner_.idle_.empty()) {
        item_ = std::move(owner_.idle_.back());
        owner_.idle_.pop_back();
      } else {
        item_ = std::make_unique<Item>();
      }
    }
    ~Lease() {
      const std::unique_lock lock(owner_.mutex_, std::try_to_lock);
      if (!lock) return;
      try {
        owner_.idle_.push_back(std::move(item_));
      } catch (...) {  // no memory to note it down
      }
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    Item& operator*() { return *item_; }
    Item* operator->() { return item_.get(); }

   private:
    WorkspacePool& owner_;
    std::unique_ptr<Item> item_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Item>> idle_;
};

}  // namespace densefield
