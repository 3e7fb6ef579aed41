// Parallel regions: workers, barriers, work queues and loops.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "base/interrupt.hpp"
#include "base/spin_wait.hpp"
#include "base/thread_load.hpp"
#include "base/thread_pool.hpp"

namespace densefield {

// A barrier. All workers leave it with the same answer: whether the call is interrupted.
class Barrier {
 public:
  bool wait(int workers, bool stop) {
    const std::uint32_t round = round_.load(std::memory_order_acquire);
    if (stop) stops_.store(true, std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == workers) {
      arrived_.store(0, std::memory_order_relaxed);
      stopped_ = stops_.load(std::memory_order_relaxed);  // no worker has passed this barrier yet
      round_.fetch_add(1, std::memory_order_release);
      round_.notify_all();
    } else {
      wait_until_changed(round_, round);
    }
    return stopped_;
  }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<bool> stops_{false};
  bool stopped_ = false;
};

// One worker's view of a parallel region.
struct Worker {
  int index;
  int count;
  Barrier* barrier;
  Interrupt* interrupt;  // of the call, or null

  // Waits for all workers; throws in all of them if the call is interrupted.
  void sync() const {
    const bool stop = is_interrupted();
    if (count > 1 ? barrier->wait(count, stop) : stop) throw Interrupted{};
  }

  // Whether to skip work because a sync() or the end of the region will throw.
  bool is_interrupted() const {
    if (!interrupt) return false;
    if (index == 0) interrupt->poll();
    return interrupt->requested();
  }

  // Calls run(begin, end) for pieces of [first, last); skips the rest if the call is interrupted.
  template <class Run>
  void for_pieces(std::int64_t first, std::int64_t last, const Run& run) const {
    constexpr std::int64_t piece = 1 << 16;
    for (std::int64_t begin = first; begin < last && !is_interrupted(); begin += piece)
      run(begin, std::min(begin + piece, last));
  }

  // This worker's share [first, last) of n items, split at multiples of `grain`.
  std::pair<std::int64_t, std::int64_t> share(std::int64_t n, std::int64_t grain = 1) const {
    const std::int64_t grains = (n + grain - 1) / grain;
    return {std::min(grains * index / count * grain, n), std::min(grains * (index + 1) / count * grain, n)};
  }
};

// Distributes items 0, 1, 2, …: each worker has a contiguous range, the same in every pass, and takes items of other
// ranges when its own is done. Data a worker has processed is then mostly still in its own caches.
class Queue {
 public:
  Queue(std::int64_t items, int workers) : workers_(workers), segments_(new Segment[workers]) {
    for (int w = 0; w < workers; ++w) {
      segments_[w].begin = items * w / workers;
      segments_[w].end = items * (w + 1) / workers;
    }
    refill();
  }

  // Only for one worker, while no other uses the queue.
  void refill() {
    for (int w = 0; w < workers_; ++w) segments_[w].next.store(segments_[w].begin, std::memory_order_relaxed);
  }

  // Calls run(item) until no item is left or the call is interrupted.
  template <class Run>
  void drain(const Worker& worker, const Run& run) {
    for (int turn = 0; turn < workers_; ++turn) {
      Segment& segment = segments_[(worker.index + turn) % workers_];
      for (std::int64_t item; (item = segment.next.fetch_add(1, std::memory_order_relaxed)) < segment.end;) {
        if (worker.is_interrupted()) return;
        run(item);
      }
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

// A queue for several passes with barriers between them: while one is in use, the first worker refills the other.
class PassQueues {
 public:
  PassQueues(std::int64_t items, int workers) : queues_{Queue(items, workers), Queue(items, workers)} {}

  // `pass` is 0, 1, 2, …
  template <class Run>
  void drain(const Worker& worker, int pass, const Run& run) {
    if (worker.index == 0) queues_[(pass + 1) % 2].refill();
    queues_[pass % 2].drain(worker, run);
  }

 private:
  Queue queues_[2];
};

// The number of threads for `tasks` tasks that each take longer than waking a thread, up to 50 µs.
inline int worth_starting(int threads, std::int64_t tasks) {
  return static_cast<int>(std::clamp<std::int64_t>(tasks, 1, threads));
}

// Runs body(worker) on up to `threads` threads, including the caller's, and returns when all have finished. The body
// may throw nothing but Interrupted: allocate before the region. Fewer threads run if the system refuses one or is
// busy. Throws Interrupted if the call is interrupted.
template <class Body>
void parallel(int threads, const Body& body) {
  Interrupt* const interrupt = current_interrupt;
  const int asked_for = threads;
  threads = useful_threads(asked_for);
  if (threads <= 1) {
    body(Worker{0, 1, nullptr, interrupt});
  } else {
    Team team(threads - 1);
    Barrier barrier;
    const int count = team.size() + 1;
    LoadMeter crowding(count, threads == asked_for);
    const auto work = [&](int index) noexcept {
      const std::int64_t before = thread_cpu_time();
      try {
        body(Worker{index, count, &barrier, interrupt});
      } catch (const Interrupted&) {  // thrown again below, on the caller's thread
      }
      crowding.add(thread_cpu_time() - before);
    };
    team.start([](const void* context, int index) { (*static_cast<decltype(&work)>(context))(index); }, &work);
    work(0);
    team.wait();
    crowding.end();
  }
  if (interrupt && interrupt->requested()) throw Interrupted{};
}

// Runs task(item, worker) for items 0…n-1 on up to `threads` threads; rethrows the first exception of a task.
template <class Task>
void parallel_for(int threads, std::int64_t items, const Task& task) {
  threads = static_cast<int>(std::clamp<std::int64_t>(items, 1, threads));
  Queue queue(items, threads);
  std::exception_ptr failure;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  parallel(threads, [&](const Worker& worker) {
    queue.drain(worker, [&](std::int64_t item) {
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

// Calls task(first, last, worker) for ranges that together are 0 … count-1.
template <class Task>
void parallel_for_ranges(int threads, std::int64_t count, const Task& task) {
  constexpr std::int64_t range = 1 << 13;
  parallel_for(threads, (count + range - 1) / range,
               [&](std::int64_t i, int worker) { task(i * range, std::min((i + 1) * range, count), worker); });
}

}  // namespace densefield
