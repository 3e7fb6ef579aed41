// Four by four floats, rows to columns.
#pragma once

#include "vector.hpp"

namespace densefield::DENSEFIELD_ISA {

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DENSEFIELD_SHUFFLE 1
#endif
#endif

struct Square {
  Quad line[4];
};

// Columns of four lines that are `stride` floats apart.
inline Square columns_of(const float* from, std::int64_t stride) {
#ifdef DENSEFIELD_SHUFFLE
  const Quad a = load<Quad>(from), b = load<Quad>(from + stride);
  const Quad c = load<Quad>(from + 2 * stride), d = load<Quad>(from + 3 * stride);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return {{__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
           __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)}};
#else
  Square result;
  for (int i = 0; i < 4; ++i) {
    float column[4];
    for (int j = 0; j < 4; ++j) column[j] = from[j * stride + i];
    result.line[i] = load<Quad>(column);
  }
  return result;
#endif
}

inline void transpose(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride) {
  const Square square = columns_of(from, from_stride);
  for (int i = 0; i < 4; ++i) store(to + i * to_stride, square.line[i]);
}

inline void transpose_add(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride) {
  const Square square = columns_of(from, from_stride);
  for (int i = 0; i < 4; ++i) store(to + i * to_stride, load<Quad>(to + i * to_stride) + square.line[i]);
}

}  // namespace densefield::DENSEFIELD_ISA
