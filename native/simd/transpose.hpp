// Transposition between four rows of many floats and many rows of four; sums of four vectors of four.
#pragma once

#include <utility>

#include "simd/vector.hpp"

namespace densefield::DENSEFIELD_ISA {

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define DENSEFIELD_SHUFFLE 1
#endif
#endif

#ifdef DENSEFIELD_SHUFFLE

struct FourVectors {
  Vector line[4];
};

// In every group of four lanes: low interleaves the first two of a and b, high the last two; pairs accordingly.
template <std::size_t... I>
inline Vector interleave_low(Vector a, Vector b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 4 / 2 + I % 2 * kVectorLanes)...);
}
template <std::size_t... I>
inline Vector interleave_high(Vector a, Vector b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + 2 + I % 4 / 2 + I % 2 * kVectorLanes)...);
}
template <std::size_t... I>
inline Vector pairs_low(Vector a, Vector b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 + I % 4 / 2 * kVectorLanes)...);
}
template <std::size_t... I>
inline Vector pairs_high(Vector a, Vector b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + 2 + I % 2 + I % 4 / 2 * kVectorLanes)...);
}

// Transposes each group of four lanes of the four vectors.
inline FourVectors transpose_groups(const FourVectors& x) {
  constexpr std::make_index_sequence<kVectorLanes> lanes{};
  const Vector ab = interleave_low(x.line[0], x.line[1], lanes), ab2 = interleave_high(x.line[0], x.line[1], lanes);
  const Vector cd = interleave_low(x.line[2], x.line[3], lanes), cd2 = interleave_high(x.line[2], x.line[3], lanes);
  return {
      {pairs_low(ab, cd, lanes), pairs_high(ab, cd, lanes), pairs_low(ab2, cd2, lanes), pairs_high(ab2, cd2, lanes)}};
}

// Joins four floats of each of several rows in one vector. Through memory, the large load would wait for the small
// stores.
template <int Lanes>
inline VectorType<Lanes> join(const float* from, std::int64_t stride) {
  if constexpr (Lanes == 4) {
    return load<Quad>(from);
  } else {
    const auto low = join<Lanes / 2>(from, stride), high = join<Lanes / 2>(from + Lanes / 8 * stride, stride);
    if constexpr (Lanes == 8)
      return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    else
      return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}

// to[p][l] = from[l][p] for the first `lines` l, zero for others up to four, and p up to the lanes of a vector.
inline void store_columns(const float* from, std::int64_t from_stride, int lines, float* to, std::int64_t to_stride) {
  FourVectors x{};
  for (int l = 0; l < 4; ++l)
    if (l < lines) x.line[l] = load<Vector>(from + l * from_stride);
  x = transpose_groups(x);
  for (int i = 0; i < 4; ++i) {
    Quad groups[kVectorLanes / 4];
    std::memcpy(groups, &x.line[i], sizeof groups);
    for (int group = 0; group < kVectorLanes / 4; ++group) store(to + (4 * group + i) * to_stride, groups[group]);
  }
}

// to[l][p] = or += from[p][l] for the first `lines` l of four, and p up to the lanes of a vector.
inline void load_columns(const float* from, std::int64_t from_stride, int lines, bool adds, float* to,
                         std::int64_t to_stride) {
  FourVectors x;
  for (int i = 0; i < 4; ++i) x.line[i] = join<kVectorLanes>(from + i * from_stride, 4 * from_stride);
  x = transpose_groups(x);
  for (int l = 0; l < 4; ++l)
    if (l < lines) store(to + l * to_stride, adds ? load<Vector>(to + l * to_stride) + x.line[l] : x.line[l]);
}

// The sum of each vector, lanes 0 and 2 first, as in Row::total().
inline Quad totals(Quad a, Quad b, Quad c, Quad d) {
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

#else

inline Quad totals(Quad a, Quad b, Quad c, Quad d) {
  float lanes[16], sums[4];
  store(lanes, a);
  store(lanes + 4, b);
  store(lanes + 8, c);
  store(lanes + 12, d);
  for (int i = 0; i < 4; ++i) sums[i] = (lanes[4 * i] + lanes[4 * i + 2]) + (lanes[4 * i + 1] + lanes[4 * i + 3]);
  return load<Quad>(sums);
}

inline void store_columns(const float* from, std::int64_t from_stride, int lines, float* to, std::int64_t to_stride) {
  for (int p = 0; p < kVectorLanes; ++p)
    for (int l = 0; l < 4; ++l) to[p * to_stride + l] = l < lines ? from[l * from_stride + p] : 0.0f;
}

inline void load_columns(const float* from, std::int64_t from_stride, int lines, bool adds, float* to,
                         std::int64_t to_stride) {
  for (int l = 0; l < lines; ++l)
    for (int p = 0; p < kVectorLanes; ++p)
      to[l * to_stride + p] = (adds ? to[l * to_stride + p] : 0.0f) + from[p * from_stride + l];
}

#endif

}  // namespace densefield::DENSEFIELD_ISA
