// Memory that the calls of one object hand on to each other.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace densefield {

// Calls that run at once lease an item each, calls in turn the same one.
template <class Item>
class FreeList {
 public:
  class Lease {
   public:
    explicit Lease(FreeList& owner) : owner_(owner) {
      const std::lock_guard<std::mutex> lock(owner_.mutex_);
      if (owner_.idle_.empty()) {
        item_ = std::make_unique<Item>();
        owner_.idle_.reserve(++owner_.made_);  // so that giving back cannot throw
      } else {
        item_ = std::move(owner_.idle_.back());
        owner_.idle_.pop_back();
      }
    }
    ~Lease() {
      const std::lock_guard<std::mutex> lock(owner_.mutex_);
      owner_.idle_.push_back(std::move(item_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    Item& operator*() { return *item_; }
    Item* operator->() { return item_.get(); }

   private:
    FreeList& owner_;
    std::unique_ptr<Item> item_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Item>> idle_;
  std::size_t made_ = 0;
};

}  // namespace densefield
