// Moving lanes between an array and a block, and the sum that ends a gradient.
#pragma once

#include "grid_kernels.hpp"
#include "vector.hpp"

namespace densefield::DENSEFIELD_ISA {

// Overlapping copies instead of a tail loop: rows of a few channels are too short for a call of memcpy.
template <class V>
inline void copy_overlapping(float* to, const float* from, int count) {
  constexpr int lanes = kLanesOf<V>;
  for (int i = 0; i + lanes <= count; i += lanes) store(to + i, load<V>(from + i));
  store(to + count - lanes, load<V>(from + count - lanes));
}

inline void copy_floats(float* to, const float* from, int count) {
  if (count >= kVectorLanes)
    copy_overlapping<Vector>(to, from, count);
  else if (count >= 4)
    copy_overlapping<Quad>(to, from, count);
  else
    for (int i = 0; i < count; ++i) to[i] = from[i];
}

inline void pack(const float* array, std::int64_t stride, const GridPiece* pieces, int count,
                 std::int64_t rows, float* block, std::int64_t block_stride) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (int p = 0; p < count; ++p)
      copy_floats(block + row * block_stride + pieces[p].lane, array + pieces[p].offset + row * stride,
                  pieces[p].length);
}

inline void unpack(const float* block, std::int64_t block_stride, const GridPiece* pieces, int count,
                   std::int64_t rows, float* array, std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (int p = 0; p < count; ++p)
      copy_floats(array + pieces[p].offset + row * stride, block + row * block_stride + pieces[p].lane,
                  pieces[p].length);
}

// Sixteen sums side by side, so that the compiler may vectorise without reordering any of them.
inline double dot(const float* a, const float* b, std::int64_t count) {
  constexpr int width = 16;
  double sums[width] = {};
  std::int64_t i = 0;
  for (; i + width <= count; i += width)
    for (int k = 0; k < width; ++k) sums[k] += static_cast<double>(a[i + k]) * static_cast<double>(b[i + k]);
  for (int k = 0; i + k < count; ++k)
    sums[k] += static_cast<double>(a[i + k]) * static_cast<double>(b[i + k]);
  double sum = 0;
  for (int k = 0; k < width; ++k) sum += sums[k];
  return sum;
}

}  // namespace densefield::DENSEFIELD_ISA
