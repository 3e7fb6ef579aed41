// What threads do together in one call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

#include "helpers.hpp"

namespace densefield {

// Spins briefly, then yields: the phases of a filter are tens of microseconds apart.
class Barrier {
 public:
  void wait(int workers) {
    const std::uint32_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == workers) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.fetch_add(1, std::memory_order_release);
      return;
    }
    for (int spin = 0; round_.load(std::memory_order_acquire) == round; ++spin)
      if (spin > 2000) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
};

// One worker's view of a parallel region.
struct Worker {
  int index;
  int count;
  Barrier* barrier;

  // Waits until every worker has come here.
  void sync() const {
    if (count > 1) barrier->wait(count);
  }

  // This worker's share [first, last) of n items, cut at multiples of `grain`.
  std::pair<std::int64_t, std::int64_t> share(std::int64_t n, std::int64_t grain = 1) const {
    const std::int64_t grains = (n + grain - 1) / grain;
    return {std::min(grains * index / count * grain, n), std::min(grains * (index + 1) / count * grain, n)};
  }
};

// Hands out items 0, 1, 2, … to whichever worker asks first.
class Queue {
 public:
  explicit Queue(std::int64_t items) : items_(items) {}

  bool next(std::int64_t& item) {
    item = next_.fetch_add(1, std::memory_order_relaxed);
    return item < items_;
  }

 private:
  const std::int64_t items_;
  std::atomic<std::int64_t> next_{0};
};

// Runs body(worker) on up to `threads` threads, the caller's among them, and returns when all have ended.
// The body must not throw: allocate before the region. Where the system refuses a thread, fewer run.
template <class Body>
void parallel(int threads, const Body& body) {
  if (threads <= 1) {
    body(Worker{0, 1, nullptr});
    return;
  }
  Team team(threads - 1);
  Barrier barrier;
  const int count = team.size() + 1;
  const auto work = [&](int index) noexcept { body(Worker{index, count, &barrier}); };
  team.start([](const void* context, int index) { (*static_cast<decltype(&work)>(context))(index); }, &work);
  work(0);
  team.wait();
}

// Runs task(item, worker) for items 0…n-1 on up to `threads` threads; the first exception of a task reaches the caller.
template <class Task>
void parallel_for(int threads, std::int64_t items, const Task& task) {
  Queue queue(items);
  std::exception_ptr failure;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  parallel(static_cast<int>(std::min<std::int64_t>(threads, items)), [&](const Worker& worker) {
    std::int64_t item;
    while (queue.next(item)) {
      try {
        task(item, worker.index);
      } catch (...) {
        if (!failed.test_and_set()) failure = std::current_exception();
        return;
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace densefield
