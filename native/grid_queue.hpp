// Hands the items of a pass to threads such that neighbours mostly go to the same one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace densefield {

// Every thread has a segment of its own and helps with the others' once it is done. Items that are neighbours
// write to the same cache lines at their border; two threads at work side by side would pass these to and fro.
class GridQueue {
 public:
  GridQueue(std::int64_t items, int segments) : segments_(segments), segment_(new Segment[segments]) {
    for (int s = 0; s < segments; ++s) {
      segment_[s].next.store(items * s / segments, std::memory_order_relaxed);
      segment_[s].end = items * (s + 1) / segments;
    }
  }

  // Calls run(item) until no item is left, beginning with the worker's own segment.
  template <class Run>
  void drain(int worker, const Run& run) {
    for (int turn = 0; turn < segments_; ++turn) {
      Segment& segment = segment_[(worker + turn) % segments_];
      for (;;) {
        const std::int64_t item = segment.next.fetch_add(1, std::memory_order_relaxed);
        if (item >= segment.end) break;
        run(item);
      }
    }
  }

 private:
  struct alignas(64) Segment {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };

  int segments_;
  std::unique_ptr<Segment[]> segment_;
};

}  // namespace densefield
