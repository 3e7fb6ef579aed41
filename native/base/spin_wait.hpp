// Waiting for another thread: spin for some microseconds, then sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
#include <immintrin.h>
#endif

namespace densefield {

// Hint to the processor that this is a spin loop.
inline void pause() {
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
  __asm__ volatile("yield");
#endif
}

// Workers usually end a phase within this time of each other; waking a thread takes a quarter of it.
inline constexpr auto phase_spin = std::chrono::microseconds(200);
// Consecutive calls of one inference usually follow within this time.
inline constexpr auto call_spin = std::chrono::microseconds(50);

// Spins until `value` differs from `old`; returns false if the time is over first.
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

// Waits until `value` differs from `old`; the thread that changes it must notify.
inline void wait_until_changed(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  if (!spin_until_changed(value, old, phase_spin)) value.wait(old, std::memory_order_acquire);
}

}  // namespace densefield
