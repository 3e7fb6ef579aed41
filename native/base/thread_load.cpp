#include "base/thread_load.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#if defined(__unix__) || defined(__APPLE__)
#include <time.h>
#define DENSEFIELD_THREAD_CLOCK 1
#endif

namespace densefield {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto least_measured = 20ms;  // total time of regions before a decision, longer than short disturbances
constexpr double enough = 0.6;         // share of a processor that each worker should get
constexpr Clock::duration first_pause = 50ms, longest_pause = 1600ms;

// Measurements since the last decision. If the lock is taken, a measurement is dropped.
struct Measured {
  std::mutex mutex;
  double wall = 0, processors = 0, workers = 0;  // seconds; the last two summed over processors and workers
};
Measured measured;

std::atomic<int> most{0};  // useful threads until the pause is over; 0: no limit
std::atomic<Clock::rep> until{0}, pause_length{0};

// Limits the number of threads to the processors that the workers got, or removes the limit.
void decide(double processors, double workers, Clock::time_point now) {
  if (processors >= enough * workers) {
    most.store(0, std::memory_order_relaxed);
    pause_length.store(0, std::memory_order_relaxed);
    return;
  }
  const Clock::rep last = pause_length.load(std::memory_order_relaxed);
  const Clock::rep length =
      std::clamp<Clock::rep>(2 * last, Clock::duration(first_pause).count(), Clock::duration(longest_pause).count());
  pause_length.store(length, std::memory_order_relaxed);
  until.store(now.time_since_epoch().count() + length, std::memory_order_relaxed);
  most.store(std::max(1, static_cast<int>(std::lround(processors))), std::memory_order_relaxed);
}

}  // namespace

int useful_threads(int threads) {
  const int limit = most.load(std::memory_order_relaxed);
  if (threads <= 1 || limit == 0 || limit >= threads) return threads;
  if (Clock::now().time_since_epoch().count() < until.load(std::memory_order_relaxed)) return limit;
  return threads;  // try again whether more are useful
}

void LoadMeter::end() const {
#ifdef DENSEFIELD_THREAD_CLOCK
  if (!counts_ || workers_ < 2) return;
  const std::unique_lock lock(measured.mutex, std::try_to_lock);
  if (!lock) return;
  const auto now = Clock::now();
  const double wall = std::chrono::duration<double>(now - start_).count();
  measured.wall += wall;
  measured.workers += wall * workers_;
  measured.processors += 1e-9 * static_cast<double>(got_.load(std::memory_order_relaxed));
  if (measured.wall < std::chrono::duration<double>(least_measured).count()) return;
  decide(measured.processors / measured.wall, measured.workers / measured.wall, now);
  measured.wall = measured.processors = measured.workers = 0;
#endif
}

std::int64_t thread_cpu_time() {
#ifdef DENSEFIELD_THREAD_CLOCK
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
#else
  return 0;
#endif
}

}  // namespace densefield
