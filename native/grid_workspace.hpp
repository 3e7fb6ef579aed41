// Memory that the calls of one filter hand on to each other.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace densefield {

// A free list: calls that run at once take a buffer each, calls in turn take the same one.
class GridWorkspaces {
  struct Buffer {
    std::unique_ptr<float[]> data;
    std::size_t size = 0;
  };

 public:
  // A buffer of at least `size` floats, given back at the end of the scope.
  class Lease {
   public:
    Lease(GridWorkspaces& owner, std::size_t size) : owner_(owner) {
      {
        const std::lock_guard<std::mutex> lock(owner_.mutex_);
        if (!owner_.free_.empty()) {
          buffer_ = std::move(owner_.free_.back());
          owner_.free_.pop_back();
        }
        owner_.free_.reserve(owner_.free_.size() + 64);  // so that giving back cannot throw
      }
      if (buffer_.size >= size) return;
      buffer_ = Buffer{};  // gives the old memory back before asking for the new
      buffer_.data.reset(new float[size]);
      buffer_.size = size;
    }
    ~Lease() {
      const std::lock_guard<std::mutex> lock(owner_.mutex_);
      if (owner_.free_.size() < owner_.free_.capacity()) owner_.free_.push_back(std::move(buffer_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    float* data() const { return buffer_.data.get(); }

   private:
    GridWorkspaces& owner_;
    Buffer buffer_;
  };

 private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
};

}  // namespace densefield
