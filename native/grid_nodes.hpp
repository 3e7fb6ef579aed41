// Between the pixels of an axis and the nodes of its coarser grid: splat gathers, slice is its transpose.
#pragma once

#include "grid_kernels.hpp"
#include "vector.hpp"

namespace densefield::DENSEFIELD_ISA {

inline constexpr int kNodeWidth = kVectorLanes == 16 ? 2 : 1;  // vectors whose nodes fit the registers

// Pixels of a cell that are handled at a time. Few, so that memory is read and written in long runs, and so
// that sums over the thousands of pixels in the cells of a very wide kernel are taken in two levels: one
// running sum in single precision would drift.
inline constexpr std::int64_t kCellRows = 32;

// Covers all lanes with strips, the widest first: strip.run<V, Width>(lane).
template <class Strip>
inline void cover_lanes(int lanes, const Strip& strip) {
  int lane = 0;
  for (; lane + kNodeWidth * kVectorLanes <= lanes; lane += kNodeWidth * kVectorLanes)
    strip.template run<Vector, kNodeWidth>(lane);
  for (; lane + kVectorLanes <= lanes; lane += kVectorLanes) strip.template run<Vector, 1>(lane);
  for (; lane + 4 <= lanes; lane += 4) strip.template run<Quad, 1>(lane);
  for (; lane < lanes; ++lane) strip.template run<float, 1>(lane);
}

// Adds the pixels first … stop - 1 of one cell to its nodes; node a is kept in row a % kGridSupport.
struct SplatStrip {
  GridRows in;
  const float* weights;
  std::int64_t cell, first, stop;
  float (*sums)[kGridLanes];

  template <class V, int Width>
  void run(int lane) const {
    V sum[kGridSupport][Width] = {};
    for (std::int64_t i = first; i < stop; ++i) {
      const float* weight = weights + i * kGridSupport;
      V value[Width];
      DENSEFIELD_UNROLL
      for (int s = 0; s < Width; ++s) value[s] = load<V>(in.data + i * in.stride + lane + s * kLanesOf<V>);
      DENSEFIELD_UNROLL
      for (int k = 0; k < kGridSupport; ++k) {
        DENSEFIELD_UNROLL
        for (int s = 0; s < Width; ++s) sum[k][s] = multiply_add(value[s], weight[k], sum[k][s]);
      }
    }
    DENSEFIELD_UNROLL
    for (int k = 0; k < kGridSupport; ++k) {
      float* total = sums[(cell + k) % kGridSupport] + lane;
      DENSEFIELD_UNROLL
      for (int s = 0; s < Width; ++s) {
        store(total + s * kLanesOf<V>, sum[k][s] + load<V>(total + s * kLanesOf<V>));
      }
    }
  }
};

inline void splat(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                  std::int64_t out_stride, int lanes) {
  float sums[kGridSupport][kGridLanes] = {};
  // The first nodes also hold pixels of the cells before them.
  for (std::int64_t cell = begin >= kGridSupport ? begin - kGridSupport + 1 : 0; cell < end; ++cell) {
    const std::int64_t last = cells.starts[cell + 1];
    for (std::int64_t i = cells.starts[cell]; i < last; i += kCellRows) {
      const std::int64_t stop = last - i < kCellRows ? last : i + kCellRows;
      cover_lanes(lanes, SplatStrip{in, cells.weights, cell, i, stop, sums});
    }
    // No later cell adds to the first node of this one.
    float* complete = sums[cell % kGridSupport];
    if (cell >= begin) std::memcpy(out + (cell - begin) * out_stride, complete, lanes * sizeof(float));
    std::memset(complete, 0, lanes * sizeof(float));
  }
}

// Computes the pixels first … stop - 1 of one cell from its nodes.
struct SliceStrip {
  GridRows in;
  const float* weights;
  std::int64_t cell, first, stop;
  float* out;
  std::int64_t out_stride;

  template <class V, int Width>
  void run(int lane) const {
    V node[kGridSupport][Width];
    DENSEFIELD_UNROLL
    for (int k = 0; k < kGridSupport; ++k) {
      DENSEFIELD_UNROLL
      for (int s = 0; s < Width; ++s)
        node[k][s] = load<V>(in.data + (cell + k) * in.stride + lane + s * kLanesOf<V>);
    }
    float* target = out + lane;
    for (std::int64_t i = first; i < stop; ++i, target += out_stride) {
      const float* weight = weights + i * kGridSupport;
      V sum[Width] = {};  // from zero: of two products the compiler could fuse either one into the sum
      DENSEFIELD_UNROLL
      for (int k = 0; k < kGridSupport; ++k) {
        DENSEFIELD_UNROLL
        for (int s = 0; s < Width; ++s) sum[s] = multiply_add(node[k][s], weight[k], sum[s]);
      }
      DENSEFIELD_UNROLL
      for (int s = 0; s < Width; ++s) store(target + s * kLanesOf<V>, sum[s]);
    }
  }
};

inline void slice(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                  std::int64_t out_stride, int lanes) {
  for (std::int64_t cell = begin; cell < end; ++cell) {
    const std::int64_t last = cells.starts[cell + 1];
    for (std::int64_t i = cells.starts[cell]; i < last; i += kCellRows) {
      const std::int64_t stop = last - i < kCellRows ? last : i + kCellRows;
      cover_lanes(lanes, SliceStrip{in, cells.weights, cell, i, stop, out, out_stride});
      out += (stop - i) * out_stride;
    }
  }
}

}  // namespace densefield::DENSEFIELD_ISA
