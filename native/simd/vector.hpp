// Vectors of floats of one instruction set.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"

#if defined(__AVX2__) && defined(__FMA__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define DENSEFIELD_FMA_INTRINSICS 1
#endif

namespace densefield::DENSEFIELD_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kVectorLanes = 8;
#else
inline constexpr int kVectorLanes = 4;
#endif

#if defined(__GNUC__) || defined(__clang__)
template <int Lanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(Lanes * sizeof(float))));
};
template <>
struct VectorOf<1> {
  typedef float type;
};
template <int Lanes>
using VectorType = typename VectorOf<Lanes>::type;
#else
// Without vector extensions: short loops that the compiler may vectorise.
template <int Lanes>
struct VectorOf {
  struct type {
    float lane[Lanes];

    friend type operator*(type a, float b) {
      for (int i = 0; i < Lanes; ++i) a.lane[i] *= b;
      return a;
    }
    friend type operator*(type a, const type& b) {
      for (int i = 0; i < Lanes; ++i) a.lane[i] *= b.lane[i];
      return a;
    }
    friend type operator+(type a, const type& b) {
      for (int i = 0; i < Lanes; ++i) a.lane[i] += b.lane[i];
      return a;
    }
  };
};
template <>
struct VectorOf<1> {
  typedef float type;
};
template <int Lanes>
using VectorType = typename VectorOf<Lanes>::type;
#endif

using Vector = VectorType<kVectorLanes>;
using Quad = VectorType<4>;

// Unaligned, since rows start at any address.
template <class V>
inline V load(const float* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

template <class V>
inline void store(float* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

// multiply_add(a, factor, sum) is sum + factor · a, rounded once if the processor can. It is explicit, since the compiler
// might fuse vectors but not single floats, and a result would depend on its lane. A Factor is broadcast to the widest
// register once, for vectors of several widths.
#if defined(DENSEFIELD_FMA_INTRINSICS)
struct Factor {
#if defined(__AVX512F__)
  explicit Factor(float factor) : all(_mm512_set1_ps(factor)) {}
#else
  explicit Factor(float factor) : all(_mm256_set1_ps(factor)) {}
#endif
  Vector all;
};
#if defined(__AVX512F__)
inline Vector multiply_add(Vector a, Factor b, Vector sum) { return _mm512_fmadd_ps(a, b.all, sum); }
inline VectorType<8> multiply_add(VectorType<8> a, Factor b, VectorType<8> sum) {
  return _mm256_fmadd_ps(a, _mm512_castps512_ps256(b.all), sum);
}
inline Quad multiply_add(Quad a, Factor b, Quad sum) { return _mm_fmadd_ps(a, _mm512_castps512_ps128(b.all), sum); }
#else
inline Vector multiply_add(Vector a, Factor b, Vector sum) { return _mm256_fmadd_ps(a, b.all, sum); }
inline Quad multiply_add(Quad a, Factor b, Quad sum) { return _mm_fmadd_ps(a, _mm256_castps256_ps128(b.all), sum); }
#endif
inline float multiply_add(float a, Factor b, float sum) { return __builtin_fmaf(a, b.all[0], sum); }
#else
using Factor = float;
template <class V>
inline V multiply_add(V a, Factor b, V sum) {
  return sum + a * b;
}
#if defined(__FP_FAST_FMAF)
inline float multiply_add(float a, Factor b, float sum) { return __builtin_fmaf(a, b, sum); }
#endif
#endif

}  // namespace densefield::DENSEFIELD_ISA
