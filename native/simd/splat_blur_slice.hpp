// Splat, blur and slice for rows of a fixed number of channels, and the table of lattice kernels.
#pragma once

#include <bit>

#include "base/compiler.hpp"
#include "simd/exp.hpp"
#include "simd/lattice_kernels.hpp"
#include "simd/row.hpp"

namespace densefield::DENSEFIELD_ISA {

void bounds(const Embedding&, const void*, bool, std::int64_t, Bounds&);
void embed(const Embedding&, const void*, bool, std::int64_t, const NarrowCode*, std::int32_t*, std::uint64_t*,
           std::uint8_t*, float*);
void pull_back(const Embedding&, std::int64_t, const std::uint8_t*, const float*, float*);

template <int V>
inline void prefetch_row(Columns<const float> rows, std::int64_t index) {
  constexpr int head = head_of(V);
  DENSEFIELD_PREFETCH_WRITE(rows.head + index * head);
  if constexpr (head > column) DENSEFIELD_PREFETCH_WRITE(rows.head + index * head + head - 1);
  if constexpr (V > head) DENSEFIELD_PREFETCH_WRITE(rows.tail + index * (V - head));
}

// Rows are loaded past their channels into the next point's; only the chunk's last row must not be.
template <int V>
inline Row<V> load_last(const float* from, int channels) {
  float row[V] = {};
  std::memcpy(row, from, channels * sizeof(float));
  return Row<V>::load(row);
}

// Slots of a point's corners. The first four are loaded as one word, since narrow rows are limited by loads.
template <int C>
class CornerSlots {
 public:
  explicit CornerSlots(const std::uint16_t* ids) : ids_(ids) {
    if constexpr (in_word) std::memcpy(&word_, ids, sizeof word_);
  }
  std::int64_t operator[](int k) const {
    return in_word && k < 4 ? static_cast<std::int64_t>(word_ >> 16 * k & 0xffff) : ids_[k];
  }

 private:
  static constexpr bool in_word = C >= 4 && std::endian::native == std::endian::little;

  const std::uint16_t* ids_;
  std::uint64_t word_ = 0;
};

// local[slot of corner k] += weight_k · row_at(p) for points first … first + points - 1 of a chunk. C is that of
// with_corners().
template <int V, int C, class RowAt>
inline void splat_points(const Chunk& chunk, std::int64_t first, std::int64_t points, Columns<float> local,
                         const RowAt& row_at) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  for (std::int64_t p = 0; p < points; ++p) {
    const Row<V> row = row_at(p);
    const CornerSlots<C> slots(ids);
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k)
      store_row<V>(load_row<V>(local, slots[k]).plus(Factor(weights[k]), row), local, slots[k]);
    ids += corners;
    weights += corners;
  }
}

// store_at(p, Σ_k weight_k · row_of(slot of corner k)) for the same points.
template <int V, int C, class RowOf, class StoreAt>
inline void slice_points(const Chunk& chunk, std::int64_t first, std::int64_t points, const RowOf& row_of,
                         const StoreAt& store_at) {
  const int corners = C ? C : chunk.corners;
  const std::uint16_t* ids = chunk.ids + first * corners;
  const float* weights = chunk.weights + first * corners;
  for (std::int64_t p = 0; p < points; ++p) {
    Row<V> sum = Row<V>::zero();
    const CornerSlots<C> slots(ids);
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k) sum = sum.plus(Factor(weights[k]), row_of(slots[k]));
    store_at(p, sum);
    ids += corners;
    weights += corners;
  }
}

template <int V>
void splat(const Chunk& chunk, const float* values, std::int64_t stride, int channels, Columns<float> local,
           std::int64_t slots) {
  std::memset(local.head, 0, slots * head_of(V) * sizeof(float));
  std::memset(local.tail, 0, slots * (V - head_of(V)) * sizeof(float));
  const std::int64_t last = chunk.points - 1;
  with_corners(chunk.corners, [&](auto c) {
    splat_points<V, c()>(chunk, 0, chunk.points, local, [&](std::int64_t p) {
      const float* from = values + p * stride;
      DENSEFIELD_PREFETCH_WRITE(from + 16 * stride);
      return p < last ? Row<V>::load(from) : load_last<V>(from, channels);
    });
  });
}

template <int V>
void slice(const Chunk& chunk, Columns<const float> rows, float* out, std::int64_t stride, int channels) {
  const std::int64_t last = chunk.points - 1;
  const auto row_of = [&](std::int64_t slot) { return load_row<V>(rows, chunk.vertices[slot]); };
  with_corners(chunk.corners, [&](auto c) {
    slice_points<V, c()>(chunk, 0, chunk.points, row_of, [&](std::int64_t p, const Row<V>& sum) {
      if (p < last) return sum.store(out + p * stride);  // the surplus is overwritten by the next row
      float row[V];
      sum.store(row);
      std::memcpy(out + p * stride, row, channels * sizeof(float));
    });
  });
}

template <int V>
void gather(Columns<const float> local, const std::int32_t* begin, const std::int32_t* slots, std::int64_t first,
            std::int64_t last, float factor, Columns<float> rows) {
  constexpr int ahead = 16;
  const std::int32_t end = begin[last];
  for (std::int64_t vertex = first; vertex < last; ++vertex) {
    Row<V> sum = Row<V>::zero();
    for (std::int32_t at = begin[vertex]; at < begin[vertex + 1]; ++at) {
      if (at + ahead < end) prefetch_row<V>(local, slots[at + ahead]);
      sum = sum + load_row<V>(local, slots[at]);
    }
    store_row<V>(Row<V>::zero().plus(Factor(factor), sum), rows, vertex);
  }
}

template <int V>
void pick(Columns<const float> rows, const std::int32_t* vertices, std::int64_t count, Columns<float> out) {
  constexpr int ahead = 16;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch_row<V>(rows, vertices[i + ahead]);
    store_row<V>(load_row<V>(rows, vertices[i]), out, i);
  }
}

// Blurs along chains of neighbouring vertices; the last of each chain is stored as its complement. Old values of
// neighbours stay in registers, so every row is read and written once.
template <int V>
void blur(Columns<float> rows, const std::int32_t* chain, std::int64_t first, std::int64_t last, float tap) {
  constexpr int ahead = 12;
  const Factor weight(tap);
  Row<V> previous = Row<V>::zero();
  Row<V> current = previous;
  bool starts = true;
  for (std::int64_t at = first; at < last; ++at) {
    const std::int32_t entry = chain[at];
    const std::int32_t vertex = entry ^ (entry >> 31);
    if (at + ahead < last) {
      const std::int32_t soon = chain[at + ahead];
      prefetch_row<V>(rows, soon ^ (soon >> 31));
    }
    if (starts) {
      previous = Row<V>::zero();
      current = load_row<V>(rows, vertex);
    }
    if (entry < 0) {
      store_row<V>(current.plus(weight, previous), rows, vertex);
      starts = true;
      continue;
    }
    const std::int32_t following = chain[at + 1] ^ (chain[at + 1] >> 31);
    const Row<V> next = load_row<V>(rows, following);
    store_row<V>(current.plus(weight, previous + next), rows, vertex);
    previous = current;
    current = next;
    starts = false;
  }
}

template <int V>
void slopes(const Chunk& chunk, const float* a, const float* b, std::int64_t stride, int channels,
            Columns<const float> rows_a, Columns<const float> rows_b, float* slopes) {
  // Lanes past the channels hold values of other points in one factor, so they are cleared in the other.
  float mask[V];
  for (int c = 0; c < V; ++c) mask[c] = c < channels ? 1.0f : 0.0f;
  const Row<V> valid = Row<V>::load(mask);
  for (std::int64_t point = 0; point < chunk.points; ++point) {
    const bool last = point + 1 == chunk.points;
    const float* from_a = a + point * stride;
    const float* from_b = b + point * stride;
    const Row<V> row_a = (last ? load_last<V>(from_a, channels) : Row<V>::load(from_a)).where(valid);
    const Row<V> row_b = (last ? load_last<V>(from_b, channels) : Row<V>::load(from_b)).where(valid);
    for (int k = 0; k < chunk.corners; ++k) {
      const std::int64_t at = point * chunk.corners + k;
      const std::int64_t vertex = chunk.vertices[chunk.ids[at]];
      slopes[at] += row_a.dot(load_row<V>(rows_b, vertex)) + row_b.dot(load_row<V>(rows_a, vertex));
    }
  }
}

template <int V>
void scale(Columns<const float> rows, const float* factor, int stride, std::int64_t first, std::int64_t last,
           Columns<float> out) {
  for (std::int64_t vertex = first; vertex < last; ++vertex)
    store_row<V>(Row<V>::zero().plus(Factor(factor[vertex * stride]), load_row<V>(rows, vertex)), out, vertex);
}

template <int V>
void products(const float* x, const float* y, const float* weight, std::int64_t points, double* sums) {
  double here[V * V];  // a local copy, which the compiler may keep in registers
  std::memcpy(here, sums, sizeof here);
  for (std::int64_t point = 0; point < points; ++point, x += V, y += V) {
    for (int e = 0; e < V; ++e) {
      const double scaled = static_cast<double>(weight[point]) * x[e];
      DENSEFIELD_SIMD
      for (int f = 0; f < V; ++f) here[e * V + f] += scaled * y[f];
    }
  }
  std::memcpy(sums, here, sizeof here);
}

template <int V>
void dot(Columns<const float> a, Columns<const float> b, std::int64_t first, std::int64_t last, float* sums,
         int stride) {
  for (std::int64_t vertex = first; vertex < last; ++vertex)
    sums[vertex * stride] += load_row<V>(a, vertex).dot(load_row<V>(b, vertex));
}

// Differences are computed in Real: double for coordinates too large for float32.
template <class Real>
double gaussian_sum(const Real* here, int coordinates, const Real* at, const float* mass, std::int64_t vertices,
                    float factor) {
  constexpr int block = 64;
  float sums[block] = {};
  double total = 0;
  std::int64_t vertex = 0;
  for (; vertex + block <= vertices; vertex += block) {
    float distance[block] = {};
    for (int j = 0; j < coordinates; ++j) {
      const Real* from = at + j * vertices + vertex;
      DENSEFIELD_SIMD
      for (int lane = 0; lane < block; ++lane) {
        const auto difference = static_cast<float>(from[lane] - here[j]);
        distance[lane] += difference * difference;
      }
    }
    DENSEFIELD_SIMD
    for (int lane = 0; lane < block; ++lane) sums[lane] += mass[vertex + lane] * exponential(factor * distance[lane]);
  }
  for (; vertex < vertices; ++vertex) {
    float distance = 0;
    for (int j = 0; j < coordinates; ++j) {
      const auto difference = static_cast<float>(at[j * vertices + vertex] - here[j]);
      distance += difference * difference;
    }
    total += mass[vertex] * exponential(factor * distance);
  }
  for (const float sum : sums) total += sum;
  return total;
}

#define DENSEFIELD_ROWS(kernel) \
  {kernel<1>, kernel<2>, kernel<4>, kernel<8>, kernel<12>, kernel<16>, kernel<20>, kernel<24>, kernel<28>, kernel<32>}

inline constexpr LatticeKernels lattice_kernels{.bounds = bounds,
                                                .embed = embed,
                                                .splat = DENSEFIELD_ROWS(splat),
                                                .gather = DENSEFIELD_ROWS(gather),
                                                .pick = DENSEFIELD_ROWS(pick),
                                                .blur = DENSEFIELD_ROWS(blur),
                                                .slice = DENSEFIELD_ROWS(slice),
                                                .slopes = DENSEFIELD_ROWS(slopes),
                                                .scale = DENSEFIELD_ROWS(scale),
                                                .products = DENSEFIELD_ROWS(products),
                                                .dot = DENSEFIELD_ROWS(dot),
                                                .pull_back = pull_back,
                                                .gaussian_sum = gaussian_sum<float>,
                                                .gaussian_sum_wide = gaussian_sum<double>};

}  // namespace densefield::DENSEFIELD_ISA
