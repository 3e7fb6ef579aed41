#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "base/interrupt.hpp"
#include "image/label_distance.hpp"

#if defined(__GLIBCXX__) && defined(__linux__)
#include <cxxabi.h>
#include <unistd.h>
#define DENSEFIELD_FORCED_UNWIND 1
#endif

namespace densefield {

// Cancels native calls of other threads: those begun after the thread called enter().
class Cancellation {
 public:
  void cancel() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  void enter() { current_ = this; }
  void leave() { current_ = nullptr; }
  static const Cancellation* current() { return current_; }

 private:
  inline static thread_local const Cancellation* current_ = nullptr;
  std::atomic<bool> requested_{false};
};

// Releases the GIL during a native call, and lets Ctrl-C interrupt it.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()), interrupt_(&ReleasedGil::ask, this), outer_(current_interrupt) {
    current_interrupt = &interrupt_;
  }
  ~ReleasedGil() {
    current_interrupt = outer_;
    restore(state_);
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  // Python ends threads that take the GIL while the interpreter shuts down. On Linux this unwinds the stack, which
  // would abort the process at the first destructor; such a thread sleeps instead until the process ends.
  static void restore(PyThreadState* state) {
#ifdef DENSEFIELD_FORCED_UNWIND
    try {
      PyEval_RestoreThread(state);
    } catch (const abi::__forced_unwind&) {
      for (;;) ::pause();
    }
#else
    PyEval_RestoreThread(state);
#endif
  }

  // Whether a signal handler raised an exception. Python runs handlers on the main thread only, so others ask once.
  static bool ask(void* self) {
    ReleasedGil& call = *static_cast<ReleasedGil*>(self);
    if (call.cancellation_ && call.cancellation_->requested()) return true;
    if (call.asks_no_more_) return false;
    restore(call.state_);
    const bool raised = PyErr_CheckSignals() != 0;
    call.asks_no_more_ = raised || !on_main_thread();
    call.state_ = PyEval_SaveThread();
    return raised;
  }

  static bool on_main_thread();

  PyThreadState* state_;
  Interrupt interrupt_;
  Interrupt* outer_;
  const Cancellation* cancellation_ = Cancellation::current();
  bool asks_no_more_ = false;
};

inline void require(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

inline void check_threads(int threads) { require(threads >= 1 && threads <= 1024, "threads must be 1 to 1024"); }

using Image = nanobind::ndarray<nanobind::ro, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

// Calls work(view) with the image (pixels, channels) in the type of its values.
template <class Work>
void with_image(const Image& image, const Work& work) {
  const auto channels = static_cast<std::int64_t>(image.shape(1));
  if (image.dtype() == nanobind::dtype<std::uint8_t>())
    work(ImageView<std::uint8_t>{static_cast<const std::uint8_t*>(image.data()), channels});
  else if (image.dtype() == nanobind::dtype<float>())
    work(ImageView<float>{static_cast<const float*>(image.data()), channels});
  else
    throw std::invalid_argument("the image must be uint8 or float32");
}

// An array argument without conversion, which would write to a copy.
inline auto array_arg(const char* name) { return nanobind::arg(name).noconvert(); }

void bind_pixels(nanobind::module_& module);
void bind_lattice(nanobind::module_& module);
void bind_mean_field(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);
void bind_mask_edges(nanobind::module_& module);
void bind_colour_mixture(nanobind::module_& module);

}  // namespace densefield
