// Uninitialised, aligned memory for plain numbers. Large buffers use huge pages, which halves the cost of page faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "base/memory_cache.hpp"

namespace densefield {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    if (size > (std::numeric_limits<std::size_t>::max() - huge_page) / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = size * sizeof(T);
    if (bytes >= huge_page) {
      block_ = bytes;
      data_ = static_cast<T*>(allocate_block(block_));
    } else {
      data_ = static_cast<T*>(::operator new(bytes, std::align_val_t{64}));
    }
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (block_)
      free_block(data_, block_);
    else if (data_)
      ::operator delete(data_, std::align_val_t{64});
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(block_, other.block_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t block_ = 0;  // bytes of a large block
};

}  // namespace densefield
