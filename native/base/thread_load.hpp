// Choosing fewer threads on a busy machine.
//
// Workers wait for each other at barriers, so a worker that shares its processor with another program delays all: two
// threads can be slower than one. The delay shows in the processor time that workers get. Results do not depend on the
// number of threads, so it may vary.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace densefield {

// At most `threads`: the number that was useful in recent regions, for a limited time.
int useful_threads(int threads);

// Measures one parallel region: every worker adds its processor time, and the caller calls end(). Regions with fewer
// threads than requested are not counted, since they say nothing about the missing ones.
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

// Processor time of this thread in nanoseconds; 0 if the system does not provide it.
std::int64_t thread_cpu_time();

}  // namespace densefield
