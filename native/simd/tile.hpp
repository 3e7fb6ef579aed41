// Splat and slice of a tile of points, and the table of tile kernels.
#pragma once

#include "simd/planes.hpp"
#include "simd/programs.hpp"
#include "simd/splat_blur_slice.hpp"
#include "simd/tile_kernels.hpp"
#include "simd/transpose.hpp"

namespace densefield::DENSEFIELD_ISA {

template <int V>
void slice_tile(const Chunk& chunk, std::int64_t first, int points, Columns<const float> source, const float* factor,
                float scale, Columns<const float> base, Columns<float> rows) {
  const auto row_of = [&](std::int64_t slot) { return load_row<V>(source, slot); };
  with_corners(chunk.corners, [&](auto c) {
    slice_points<V, c()>(chunk, first, points, row_of, [&](std::int64_t p, const Row<V>& sum) {
      const Row<V> before = base.head ? load_row<V>(base, p) : Row<V>::zero();
      store_row<V>(before.plus(Factor(scale * factor[p]), sum), rows, p);
    });
  });
}

template <int V>
void splat_tile(const Chunk& chunk, std::int64_t first, int points, Columns<const float> rows, const float* factor,
                const float* shift, Columns<float> local) {
  with_corners(chunk.corners, [&](auto c) {
    splat_points<V, c()>(chunk, first, points, local, [&](std::int64_t p) {
      return Row<V>::filled(shift[p]).plus(Factor(factor[p]), load_row<V>(rows, p));
    });
  });
}

template <int V>
void add_scaled(Columns<const float> base, Columns<const float> rows, const float* factor, const float* shift,
                int points, Columns<float> out) {
  for (int p = 0; p < points; ++p) {
    const Row<V> sum = load_row<V>(base, p) + Row<V>::filled(shift[p]);
    store_row<V>(sum.plus(Factor(factor[p]), load_row<V>(rows, p)), out, p);
  }
}

template <int V>
void add_rows(Columns<const float> rows, int points, float* sums) {
  int p = 0;
  if constexpr (V >= 4)
    for (; p + 4 <= points; p += 4)
      store(sums + p, load<Quad>(sums + p) + totals(load_row<V>(rows, p).quad(), load_row<V>(rows, p + 1).quad(),
                                                    load_row<V>(rows, p + 2).quad(), load_row<V>(rows, p + 3).quad()));
  for (; p < points; ++p) sums[p] += load_row<V>(rows, p).total();
}

template <int V, int C>
void slice_slopes_at(const Chunk& chunk, std::int64_t first, int points, Columns<const float> source,
                     std::int64_t stride, const float* factor, float scale, Columns<const float> rows, int dimension,
                     float* slope) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  for (int p = 0; p < points; ++p) {
    const Row<V> row = load_row<V>(rows, p);
    std::int64_t at[max_corners];
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k) at[k] = chunk.vertices[ids[k]];
    for (int e = 0; e < dimension; ++e) {
      const Columns<const float> from{source.head + e * stride, source.tail + e * stride};
      Row<V> sum = Row<V>::zero();
      DENSEFIELD_UNROLL
      for (int k = 0; k < corners; ++k) sum = sum.plus(Factor(weights[k]), load_row<V>(from, at[k]));
      slope[e] += scale * factor[p] * row.dot(sum);
    }
    ids += corners;
    weights += corners;
    slope += dimension;
  }
}

template <int V>
void slice_slopes(const Chunk& chunk, std::int64_t first, int points, Columns<const float> source, std::int64_t stride,
                  const float* factor, float scale, Columns<const float> rows, int dimension, float* slope) {
  with_corners(chunk.corners, [&](auto c) {
    slice_slopes_at<V, c()>(chunk, first, points, source, stride, factor, scale, rows, dimension, slope);
  });
}

inline constexpr TileKernels tile_kernels{.slice_tile = DENSEFIELD_ROWS(slice_tile),
                                          .splat_tile = DENSEFIELD_ROWS(splat_tile),
                                          .slice_slopes = DENSEFIELD_ROWS(slice_slopes),
                                          .add_scaled = DENSEFIELD_ROWS(add_scaled),
                                          .add_rows = DENSEFIELD_ROWS(add_rows),
                                          .exponentials = exponentials,
                                          .weigh = weigh,
                                          .invert = invert,
                                          .load = load_tile,
                                          .store = store_tile,
                                          .add = add_tile,
                                          .to_planes = to_planes,
                                          .to_rows = to_rows,
                                          .scale = scale_planes,
                                          .subtract_largest = subtract_largest,
                                          .softmax = softmax,
                                          .log_softmax = log_softmax,
                                          .subtract_own = subtract_own,
                                          .mix = mix,
                                          .solve_programs = solve_programs,
                                          .program_adjoint = program_adjoint,
                                          .log_softmax_adjoint = log_softmax_adjoint,
                                          .softmax_adjoint = softmax_adjoint,
                                          .dot = dot_planes,
                                          .distance = distance,
                                          .couple = couple};

}  // namespace densefield::DENSEFIELD_ISA
