// Interruption of a running call, as by Ctrl-C: the caller's thread polls a function that says whether to stop.
#pragma once

#include <atomic>
#include <chrono>

namespace densefield {

// Thrown by every worker of an interrupted call.
struct Interrupted {};

class Interrupt {
 public:
  using Ask = bool (*)(void* context);
  using Clock = std::chrono::steady_clock;

  // Calls `ask` at most once per `interval`.
  Interrupt(Ask ask, void* context, Clock::duration interval = std::chrono::milliseconds(50))
      : ask_(ask), context_(context), interval_(interval), next_(Clock::now() + interval) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Calls `ask` if the interval has passed. Only for the caller's thread.
  void poll() {
    if (Clock::now() < next_) return;
    if (ask_(context_)) requested_.store(true, std::memory_order_relaxed);
    next_ = Clock::now() + interval_;
  }

  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  Ask ask_;
  void* context_;
  Clock::duration interval_;
  Clock::time_point next_;
  std::atomic<bool> requested_{false};
};

// The interrupt of the call this thread is in, or null.
inline thread_local Interrupt* current_interrupt = nullptr;

}  // namespace densefield
