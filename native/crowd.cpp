#include "crowd.hpp"

#include <algorithm>
#include <cmath>

#if defined(__unix__) || defined(__APPLE__)
#include <time.h>
#define DENSEFIELD_THREAD_CLOCK 1
#endif

namespace densefield {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto least_measured = 2ms;  // shorter regions say little
constexpr double enough = 0.6;        // share of a processor that each worker should get
constexpr Clock::duration first_pause = 50ms, longest_pause = 1600ms;

// Written by whoever ends a region; a value that is lost among threads does no harm.
std::atomic<int> most{0};  // threads of use, until the pause is over
std::atomic<Clock::rep> until{0}, pause_length{0};

}  // namespace

int threads_of_use(int threads) {
  const int limit = most.load(std::memory_order_relaxed);
  if (threads <= 1 || limit == 0 || limit >= threads) return threads;
  if (Clock::now().time_since_epoch().count() < until.load(std::memory_order_relaxed)) return limit;
  return threads;  // to see whether they are of use again
}

void Crowding::end() const {
#ifdef DENSEFIELD_THREAD_CLOCK
  const auto now = Clock::now();
  const auto wall = now - start_;
  if (workers_ < 2 || wall < least_measured) return;
  const double processors = static_cast<double>(got_.load(std::memory_order_relaxed)) /
                            static_cast<double>(std::chrono::nanoseconds(wall).count());
  if (processors >= enough * workers_) {
    most.store(0, std::memory_order_relaxed);
    pause_length.store(0, std::memory_order_relaxed);
    return;
  }
  const Clock::rep last = pause_length.load(std::memory_order_relaxed);
  const Clock::rep length = std::clamp<Clock::rep>(2 * last, Clock::duration(first_pause).count(),
                                                   Clock::duration(longest_pause).count());
  pause_length.store(length, std::memory_order_relaxed);
  until.store(now.time_since_epoch().count() + length, std::memory_order_relaxed);
  most.store(std::max(1, static_cast<int>(std::lround(processors))), std::memory_order_relaxed);
#endif
}

std::int64_t processor_time() {
#ifdef DENSEFIELD_THREAD_CLOCK
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
#else
  return 0;
#endif
}

}  // namespace densefield
