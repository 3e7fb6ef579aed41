// Between the pixels of an axis and the nodes of its coarser grid: splat gathers, slice is its transpose.
#pragma once

#include "grid_kernels.hpp"
#include "grid_vector.hpp"

namespace densefield::DENSEFIELD_ISA {

inline constexpr int kLongCell = 64;  // pixels after which a partial sum is put away, see splat_strip

// A window of kGridSupport sums slides over the nodes: all pixels of a cell add to the same ones, then the
// first is complete. Cells of very wide kernels hold thousands of pixels, where a plain running sum in
// single precision would drift: Long adds up in two levels.
template <class V, int Width, bool Long>
inline void splat_strip(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                        std::int64_t out_stride) {
  V sum[kGridSupport][Width] = {};
  V total[Long ? kGridSupport : 1][Width] = {};
  const std::int64_t first_cell = begin >= kGridSupport - 1 ? begin - (kGridSupport - 1) : 0;
  for (std::int64_t cell = first_cell; cell < end; ++cell) {
    const std::int64_t stop = cells.starts[cell + 1];
    for (std::int64_t i = cells.starts[cell], run = 1; i < stop; ++i, ++run) {
      const float* weight = cells.weights + i * kGridSupport;
      V value[Width];
      DENSEFIELD_UNROLL
      for (int s = 0; s < Width; ++s) value[s] = load<V>(in.data + i * in.stride + s * kLanesOf<V>);
      DENSEFIELD_UNROLL
      for (int k = 0; k < kGridSupport; ++k) {
        DENSEFIELD_UNROLL
        for (int s = 0; s < Width; ++s) sum[k][s] += value[s] * weight[k];
      }
      if (Long && run % kLongCell == 0)
        for (int k = 0; k < kGridSupport; ++k)
          for (int s = 0; s < Width; ++s) {
            total[Long ? k : 0][s] += sum[k][s];
            sum[k][s] = V{};
          }
    }
    if (Long)
      for (int k = 0; k < kGridSupport; ++k)
        for (int s = 0; s < Width; ++s) {
          sum[k][s] += total[Long ? k : 0][s];
          total[Long ? k : 0][s] = V{};
        }
    if (cell >= begin)
      for (int s = 0; s < Width; ++s) store(out + (cell - begin) * out_stride + s * kLanesOf<V>, sum[0][s]);
    DENSEFIELD_UNROLL
    for (int s = 0; s < Width; ++s) {
      DENSEFIELD_UNROLL
      for (int k = 0; k + 1 < kGridSupport; ++k) sum[k][s] = sum[k + 1][s];
      sum[kGridSupport - 1][s] = V{};
    }
  }
}

template <class V, int Width>
inline void slice_strip(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                        std::int64_t out_stride) {
  V node[kGridSupport][Width];
  for (int k = 1; k < kGridSupport; ++k)
    for (int s = 0; s < Width; ++s)
      node[k][s] = load<V>(in.data + (begin + k - 1) * in.stride + s * kLanesOf<V>);
  for (std::int64_t cell = begin; cell < end; ++cell) {
    DENSEFIELD_UNROLL
    for (int s = 0; s < Width; ++s) {
      DENSEFIELD_UNROLL
      for (int k = 0; k + 1 < kGridSupport; ++k) node[k][s] = node[k + 1][s];
      node[kGridSupport - 1][s] =
          load<V>(in.data + (cell + kGridSupport - 1) * in.stride + s * kLanesOf<V>);
    }
    const std::int64_t stop = cells.starts[cell + 1];
    for (std::int64_t i = cells.starts[cell]; i < stop; ++i, out += out_stride) {
      const float* weight = cells.weights + i * kGridSupport;
      DENSEFIELD_UNROLL
      for (int s = 0; s < Width; ++s) {
        V sum = node[0][s] * weight[0];
        DENSEFIELD_UNROLL
        for (int k = 1; k < kGridSupport; ++k) sum += node[k][s] * weight[k];
        store(out + s * kLanesOf<V>, sum);
      }
    }
  }
}

inline constexpr int kNodeWidth = kVectorLanes == 16 ? 2 : 1;  // vectors whose windows fit the registers

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

template <bool Long>
struct Splat {
  GridRows in;
  GridCells cells;
  std::int64_t begin, end;
  float* out;
  std::int64_t out_stride;

  template <class V, int Width>
  void run(int lane) const {
    splat_strip<V, Width, Long>({in.data + lane, in.stride}, cells, begin, end, out + lane, out_stride);
  }
};

struct Slice {
  GridRows in;
  GridCells cells;
  std::int64_t begin, end;
  float* out;
  std::int64_t out_stride;

  template <class V, int Width>
  void run(int lane) const {
    slice_strip<V, Width>({in.data + lane, in.stride}, cells, begin, end, out + lane, out_stride);
  }
};

inline void splat(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                  std::int64_t out_stride, int lanes) {
  const std::int64_t first_cell_length = cells.starts[1] - cells.starts[0];  // no other cell is much longer
  if (first_cell_length > kLongCell)
    cover_lanes(lanes, Splat<true>{in, cells, begin, end, out, out_stride});
  else
    cover_lanes(lanes, Splat<false>{in, cells, begin, end, out, out_stride});
}

inline void slice(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                  std::int64_t out_stride, int lanes) {
  cover_lanes(lanes, Slice{in, cells, begin, end, out, out_stride});
}

}  // namespace densefield::DENSEFIELD_ISA
