// How many threads are worth starting on a machine that others use too.
//
// Workers wait for each other at barriers, so one that has to share its processor holds up all of them: two threads can be
// slower than one. How much they were held up is seen in the processor time that they got. Results do not depend on the
// number of threads, so that it can follow.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace densefield {

// No more than `threads`: as many as were of use the last time, for a while.
int useful_threads(int threads);

// Measures one parallel region: every worker adds the processor time that it got, and the caller ends it. Regions with
// fewer threads than were asked for say nothing about those that are left out, so they do not count.
class LoadMeter {
 public:
  LoadMeter(int workers, bool counts) : workers_(workers), counts_(counts), start_(std::chrono::steady_clock::now()) {}

  void add(std::int64_t nanoseconds) { got_.fetch_add(nanoseconds, std::memory_order_relaxed); }
  void end() const;

 private:
  int workers_;
  bool counts_;
  std::chrono::steady_clock::time_point start_;
  std::atomic<std::int64_t> got_{0};
};

// Processor time of this thread so far, in nanoseconds; 0 where the system does not tell.
std::int64_t thread_cpu_time();

}  // namespace densefield
