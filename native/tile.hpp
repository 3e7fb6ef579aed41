// Between points and lattice for a tile: gathering at corners and spreading to them.
#pragma once

#include "rows.hpp"
#include "tile_kernels.hpp"
#include "tile_planes.hpp"

namespace densefield::DENSEFIELD_ISA {

// C is the number of corners where it is known to the compiler, which then unrolls; 0 where it is not.
template <int V, int C>
void collect_at(const Chunk& chunk, std::int64_t first, int points, const float* source, const float* factor,
                float scale, const float* base, float* rows, int width) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  const std::int32_t* vertices = chunk.vertices;
  for (int p = 0; p < points; ++p) {
    Row<V> sum = Row<V>::zero();
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k)
      sum = sum.plus(Factor(weights[k]), Row<V>::load(source + std::int64_t{vertices[ids[k]]} * V));
    (base ? Row<V>::load(base + p * width) : Row<V>::zero()).plus(Factor(scale * factor[p]), sum).store(rows);
    ids += corners;
    weights += corners;
    rows += width;
  }
}

template <int V, int C>
void spread_at(const Chunk& chunk, std::int64_t first, int points, const float* rows, int width, const float* factor,
               float* local) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  for (int p = 0; p < points; ++p) {
    const Row<V> row = Row<V>::zero().plus(Factor(factor[p]), Row<V>::load(rows));
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k) {
      float* to = local + std::int64_t{ids[k]} * V;
      Row<V>::load(to).plus(Factor(weights[k]), row).store(to);
    }
    ids += corners;
    weights += corners;
    rows += width;
  }
}

// Images have lattices of two dimensions, and of five with colours; volumes of three; grey images of three too.
template <int V>
void collect(const Chunk& chunk, std::int64_t first, int points, const float* source, const float* factor,
             float scale, const float* base, float* rows, int width) {
  const auto at = chunk.corners == 3   ? collect_at<V, 3>
                  : chunk.corners == 4 ? collect_at<V, 4>
                  : chunk.corners == 6 ? collect_at<V, 6>
                                       : collect_at<V, 0>;
  at(chunk, first, points, source, factor, scale, base, rows, width);
}

template <int V>
void spread(const Chunk& chunk, std::int64_t first, int points, const float* rows, int width, const float* factor,
            float* local) {
  const auto at = chunk.corners == 3   ? spread_at<V, 3>
                  : chunk.corners == 4 ? spread_at<V, 4>
                  : chunk.corners == 6 ? spread_at<V, 6>
                                       : spread_at<V, 0>;
  at(chunk, first, points, rows, width, factor, local);
}

template <int V>
void add_rows(const float* rows, int width, int points, float* sums) {
  for (int p = 0; p < points; ++p) sums[p] += Row<V>::load(rows + p * width).total();
}

template <int V, int C>
void collect_slopes_at(const Chunk& chunk, std::int64_t first, int points, const float* source, std::int64_t stride,
                       const float* factor, float scale, const float* rows, int width, int dimension, float* slope) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  for (int p = 0; p < points; ++p) {
    const Row<V> row = Row<V>::load(rows);
    std::int64_t at[max_corners];
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k) at[k] = std::int64_t{chunk.vertices[ids[k]]} * V;
    for (int e = 0; e < dimension; ++e) {
      const float* from = source + e * stride;
      Row<V> sum = Row<V>::zero();
      DENSEFIELD_UNROLL
      for (int k = 0; k < corners; ++k) sum = sum.plus(Factor(weights[k]), Row<V>::load(from + at[k]));
      slope[e] += scale * factor[p] * row.dot(sum);
    }
    ids += corners;
    weights += corners;
    rows += width;
    slope += dimension;
  }
}

template <int V>
void collect_slopes(const Chunk& chunk, std::int64_t first, int points, const float* source, std::int64_t stride,
                    const float* factor, float scale, const float* rows, int width, int dimension, float* slope) {
  const auto at = chunk.corners == 3   ? collect_slopes_at<V, 3>
                  : chunk.corners == 4 ? collect_slopes_at<V, 4>
                  : chunk.corners == 6 ? collect_slopes_at<V, 6>
                                       : collect_slopes_at<V, 0>;
  at(chunk, first, points, source, stride, factor, scale, rows, width, dimension, slope);
}

inline constexpr TileKernels tile_kernels{DENSEFIELD_ROWS(collect),
                                          DENSEFIELD_ROWS(spread),
                                          DENSEFIELD_ROWS(collect_slopes),
                                          DENSEFIELD_ROWS(add_rows),
                                          powers,
                                          half_tangents,
                                          invert,
                                          load_tile,
                                          store_tile,
                                          add_tile,
                                          to_planes,
                                          to_rows,
                                          scale_planes,
                                          negate,
                                          take_largest,
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
