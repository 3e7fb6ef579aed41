// Uninitialised, aligned memory for plain numbers; large buffers ask for huge pages, which halves page faults' cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

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
    const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
    data_ = static_cast<T*>(::operator new(bytes, std::align_val_t{alignment}));
    alignment_ = alignment;
#ifdef __linux__
    if (alignment == huge_page) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_) ::operator delete(data_, std::align_val_t{alignment_});
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }

 private:
  static constexpr std::size_t huge_page = std::size_t{1} << 21;

  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(alignment_, other.alignment_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t alignment_ = 64;
};

}  // namespace densefield
