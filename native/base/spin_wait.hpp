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

// Workers of one phase end within this of each other unless one is held up; to be woken takes a quarter of it.
inline constexpr auto phase_spin = std::chrono::microseconds(200);
// Calls of one inference follow each other sooner than this.
inline constexpr auto call_spin = std::chrono::microseconds(50);

// Whether `value` is something else than `old` within that time.
inline bool spin_until_changed(const std::atomic<std::uint32_t>& value, std::uint32_t old,
                         std::chrono::steady_clock::duration patience) {
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
inline void wait_until_changed(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  if (!spin_until_changed(value, old, phase_spin)) value.wait(old, std::memory_order_acquire);
}

}  // namespace densefield
