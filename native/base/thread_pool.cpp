#include "base/thread_pool.hpp"

#include "base/memory_cache.hpp"
#include "base/spin_wait.hpp"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#define DENSEFIELD_AFFINITY 1
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define DENSEFIELD_FORKS 1
#endif

namespace densefield {

namespace {

#ifdef DENSEFIELD_AFFINITY
struct Processors {
  cpu_set_t set;

  static Processors of_this_thread() {
    Processors here;
    CPU_ZERO(&here.set);
    if (sched_getaffinity(0, sizeof here.set, &here.set) != 0)
      CPU_ZERO(&here.set);  // more processors than a set can hold
    return here;
  }
  bool operator==(const Processors& other) const { return CPU_EQUAL(&set, &other.set); }
  void keep_to() const {
    if (CPU_COUNT(&set) > 0) pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }
};
#else
struct Processors {
  static Processors of_this_thread() { return {}; }
  bool operator==(const Processors&) const { return true; }
  void keep_to() const {}
};
#endif

// Properties that a thread takes over from the caller.
struct ThreadState {
  Processors processors = Processors::of_this_thread();
  std::fenv_t arithmetic;  // rounding mode and treatment of denormals

  ThreadState() { std::fegetenv(&arithmetic); }
};

}  // namespace

class PoolThread {
 public:
  PoolThread() {
    std::thread([this] { run(); }).detach();
  }

  void start(Team::Task task, const void* context, int index, const ThreadState& state) {
    task_ = task;
    context_ = context;
    index_ = index;
    moves_ = !(state.processors == state_.processors);
    state_ = state;
    wake();
  }

  // Ends the thread and deletes this object.
  void end() {
    task_ = nullptr;
    wake();
  }

  // Waits until the task is finished.
  void wait() const {
    const std::uint32_t given = given_.load(std::memory_order_relaxed);
    for (std::uint32_t done; (done = done_.load(std::memory_order_acquire)) != given;) wait_until_changed(done_, done);
  }

 private:
  void wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    given_.fetch_add(1, std::memory_order_release);
    condition_.notify_one();
  }

  void run() {
    for (std::uint32_t seen = 0;; ++seen) {
      if (!spin_until_changed(given_, seen, call_spin)) sleep(seen);
      if (!task_) break;
      if (moves_) state_.processors.keep_to();
      std::fesetenv(&state_.arithmetic);
      task_(context_, index_);
      done_.store(seen + 1, std::memory_order_release);
      done_.notify_one();
    }
    mutex_.lock();  // the waking thread has released it
    mutex_.unlock();
    delete this;
  }

  // Sleeps until there is a task, and releases unused memory from time to time.
  void sleep(std::uint32_t seen) {
    const auto woken = [&] { return given_.load(std::memory_order_acquire) != seen; };
    std::unique_lock<std::mutex> lock(mutex_);
    for (bool tidies = true; !woken();) {
      if (!tidies) {
        condition_.wait(lock, woken);
      } else if (!condition_.wait_for(lock, std::chrono::seconds(2), woken)) {
        tidies = release_old_blocks() > 0;
      }
    }
  }

  std::atomic<std::uint32_t> given_{0}, done_{0};  // number of tasks
  std::mutex mutex_;
  std::condition_variable condition_;
  Team::Task task_ = nullptr;
  const void* context_ = nullptr;
  int index_ = 0;
  bool moves_ = false;
  ThreadState state_;
};

namespace {

// Idle threads, at most one per processor. Never destroyed: threads wait in it until the process ends.
struct Pool {
  const std::size_t most = std::max(std::thread::hardware_concurrency(), 1u);
  std::mutex mutex;
  std::vector<PoolThread*> idle;

  Pool() { idle.reserve(most); }
};

std::atomic<Pool*> the_pool{nullptr};

Pool& pool() {
  Pool* there = the_pool.load(std::memory_order_acquire);
  if (there) return *there;
  auto mine = std::make_unique<Pool>();
  if (the_pool.compare_exchange_strong(there, mine.get(), std::memory_order_acq_rel)) there = mine.release();
  return *there;
}

#ifdef DENSEFIELD_FORKS
// A child process has none of its parent's threads, and may not touch locks that one of them may have held.
const int watches_forks = pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr, std::memory_order_release); });
#endif

}  // namespace

Team::Team(int most) {
  threads_.reserve(most);
  Pool& from = pool();
  {
    const std::lock_guard<std::mutex> lock(from.mutex);
    while (size() < most && !from.idle.empty()) {
      threads_.push_back(from.idle.back());
      from.idle.pop_back();
    }
  }
  try {
    while (size() < most) threads_.push_back(new PoolThread);
  } catch (...) {  // no thread or no memory: work with those that started
  }
}

Team::~Team() {
  Pool& to = pool();
  const std::lock_guard<std::mutex> lock(to.mutex);
  for (PoolThread* thread : threads_)
    if (to.idle.size() < to.most)
      to.idle.push_back(thread);
    else
      thread->end();
}

void Team::start(Task task, const void* context) {
  const ThreadState here;
  for (int i = 0; i < size(); ++i) threads_[i]->start(task, context, i + 1, here);
}

void Team::wait() {
  for (const PoolThread* thread : threads_) thread->wait();
}

}  // namespace densefield
