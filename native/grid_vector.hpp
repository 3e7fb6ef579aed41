// The vector register of one instruction set, for the kernels of the pixel grid.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__GNUC__) || defined(__clang__)
#define DENSEFIELD_UNROLL _Pragma("GCC unroll 8")
#else
#define DENSEFIELD_UNROLL
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
template <int Lanes>
using VectorType = typename VectorOf<Lanes>::type;
#else
// Without vector extensions the compiler sees short loops that it may vectorise.
template <int Lanes>
struct VectorType {
  float lane[Lanes];

  friend VectorType operator*(VectorType a, float b) {
    for (int i = 0; i < Lanes; ++i) a.lane[i] *= b;
    return a;
  }
  VectorType& operator+=(const VectorType& other) {
    for (int i = 0; i < Lanes; ++i) lane[i] += other.lane[i];
    return *this;
  }
};
#endif

using Vector = VectorType<kVectorLanes>;
using Quad = VectorType<4>;

template <class V>
inline constexpr int kLanesOf = sizeof(V) / sizeof(float);

// Any address will do: rows start wherever the image's width puts them.
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

}  // namespace densefield::DENSEFIELD_ISA
