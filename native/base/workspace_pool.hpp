// Working memory that calls of one object reuse.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace densefield {

// Concurrent calls lease one item each, consecutive calls the same one. No call waits for the lock: if it is taken,
// the call makes an item and drops it afterwards. So a process forked while the lock is taken does not hang.
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
      } catch (...) {  // no memory for the entry
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
