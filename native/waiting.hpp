// Waiting for another thread: awake for a few microseconds, then asleep, so that a processor that others need is theirs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
#include <immintrin.h>
#endif

namespace densefield {

// Tells the processor that a loop waits for memory to change.
inline void pause() {
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
  __asm__ volatile("yield");
#endif
}

// Phases of a filter are tens of microseconds apart, and to be woken takes about as long.
inline constexpr auto patience = std::chrono::microseconds(20);

// Whether `value` is something else than `old` within that time.
inline bool changes_soon(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    for (int spin = 0; spin < 16; ++spin) {
      if (value.load(std::memory_order_acquire) != old) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Returns when `value` is no longer `old`; whoever changes it notifies.
inline void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  if (!changes_soon(value, old)) value.wait(old, std::memory_order_acquire);
}

}  // namespace densefield
