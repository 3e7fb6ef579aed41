// What threads do together in one call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
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

// Hands out items 0, 1, 2, … such that every worker has neighbours, the same ones in every pass over them, and helps with
// the others' once it is done. So what it has worked on is mostly in its own caches still, which processors that do not
// share one pass to each other slowly.
class Queue {
 public:
  Queue(std::int64_t items, int workers) : workers_(workers), segments_(new Segment[workers]) {
    for (int w = 0; w < workers; ++w) {
      segments_[w].begin = items * w / workers;
      segments_[w].end = items * (w + 1) / workers;
    }
    refill();
  }

  // To be called by one worker, while none is at it.
  void refill() {
    for (int w = 0; w < workers_; ++w) segments_[w].next.store(segments_[w].begin, std::memory_order_relaxed);
  }

  // Calls run(item) until no item is left.
  template <class Run>
  void drain(int worker, const Run& run) {
    for (int turn = 0; turn < workers_; ++turn) {
      Segment& segment = segments_[(worker + turn) % workers_];
      for (std::int64_t item; (item = segment.next.fetch_add(1, std::memory_order_relaxed)) < segment.end;) run(item);
    }
  }

 private:
  struct alignas(64) Segment {
    std::atomic<std::int64_t> next;
    std::int64_t begin, end;
  };

  int workers_;
  std::unique_ptr<Segment[]> segments_;
};

// The same for any number of passes with a barrier between one and the next: while all work on one queue, the first
// worker refills the other.
class PassQueues {
 public:
  PassQueues(std::int64_t items, int workers) : queues_{Queue(items, workers), Queue(items, workers)} {}

  // `pass` is 0, 1, 2, …
  template <class Run>
  void drain(const Worker& worker, int pass, const Run& run) {
    if (worker.index == 0) queues_[(pass + 1) % 2].refill();
    queues_[pass % 2].drain(worker.index, run);
  }

 private:
  Queue queues_[2];
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
  threads = static_cast<int>(std::clamp<std::int64_t>(items, 1, threads));
  Queue queue(items, threads);
  std::exception_ptr failure;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  parallel(threads, [&](const Worker& worker) {
    queue.drain(worker.index, [&](std::int64_t item) {
      if (failed.test(std::memory_order_relaxed)) return;
      try {
        task(item, worker.index);
      } catch (...) {
        if (!failed.test_and_set()) failure = std::current_exception();
      }
    });
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace densefield
