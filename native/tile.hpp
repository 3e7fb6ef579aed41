// Between points and lattice for a tile: gathering at corners and spreading to them.
#pragma once

#include "rows.hpp"
#include "tile_kernels.hpp"
#include "tile_planes.hpp"
#include "transpose.hpp"

namespace densefield::DENSEFIELD_ISA {

// C is that of with_corners().
template <int V, int C>
void collect_at(const Chunk& chunk, std::int64_t first, int points, Columns<const float> source, const float* factor,
                float scale, Columns<const float> base, Columns<float> rows) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  const std::int32_t* vertices = chunk.vertices;
  for (int p = 0; p < points; ++p) {
    Row<V> sum = Row<V>::zero();
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k)
      sum = sum.plus(Factor(weights[k]), load_row<V>(source, vertices[ids[k]]));
    const Row<V> before = base.head ? load_row<V>(base, p) : Row<V>::zero();
    store_row<V>(before.plus(Factor(scale * factor[p]), sum), rows, p);
    ids += corners;
    weights += corners;
  }
}

template <int V, int C>
void spread_at(const Chunk& chunk, std::int64_t first, int points, Columns<const float> rows, const float* factor,
               const float* shift, Columns<float> local) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  for (int p = 0; p < points; ++p) {
    const Row<V> row = Row<V>::filled(shift[p]).plus(Factor(factor[p]), load_row<V>(rows, p));
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k)
      store_row<V>(load_row<V>(local, ids[k]).plus(Factor(weights[k]), row), local, ids[k]);
    ids += corners;
    weights += corners;
  }
}

template <int V>
void collect(const Chunk& chunk, std::int64_t first, int points, Columns<const float> source, const float* factor,
             float scale, Columns<const float> base, Columns<float> rows) {
  with_corners(chunk.corners, [&](auto c) {
    collect_at<V, c()>(chunk, first, points, source, factor, scale, base, rows);
  });
}

template <int V>
void spread(const Chunk& chunk, std::int64_t first, int points, Columns<const float> rows, const float* factor,
            const float* shift, Columns<float> local) {
  with_corners(chunk.corners, [&](auto c) { spread_at<V, c()>(chunk, first, points, rows, factor, shift, local); });
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
void collect_slopes_at(const Chunk& chunk, std::int64_t first, int points, Columns<const float> source,
                       std::int64_t stride, const float* factor, float scale, Columns<const float> rows, int dimension, float* slope) {
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
void collect_slopes(const Chunk& chunk, std::int64_t first, int points, Columns<const float> source,
                    std::int64_t stride, const float* factor, float scale, Columns<const float> rows, int dimension, float* slope) {
  with_corners(chunk.corners, [&](auto c) {
    collect_slopes_at<V, c()>(chunk, first, points, source, stride, factor, scale, rows, dimension, slope);
  });
}

inline constexpr TileKernels tile_kernels{DENSEFIELD_ROWS(collect),
                                          DENSEFIELD_ROWS(spread),
                                          DENSEFIELD_ROWS(collect_slopes),
                                          DENSEFIELD_ROWS(add_rows),
                                          powers,
                                          half_tangents,
                                          weigh,
                                          invert,
                                          load_tile,
                                          store_tile,
                                          add_tile,
                                          to_planes,
                                          to_rows,
                                          scale_planes,
                                          take_largest,
                                          take_from_least,
                                          softmax,
                                          log_softmax,
                                          take_own,
                                          mix,
                                          log_softmax_adjoint,
                                          softmax_adjoint,
                                          dot_planes,
                                          distance,
                                          couple};

}  // namespace densefield::DENSEFIELD_ISA
