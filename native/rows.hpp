// A row of V channels in registers, made of the widest vectors the instruction set has.
#pragma once

#include <cstring>

#if defined(__AVX__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace densefield::DENSEFIELD_ISA {

#if defined(__AVX512F__)
inline constexpr int widest = 16;
#elif defined(__AVX__)
inline constexpr int widest = 8;
#else
inline constexpr int widest = 4;
#endif

#if defined(__GNUC__) || defined(__clang__)
template <int W>
struct Lanes {
  typedef float type __attribute__((vector_size(W * sizeof(float))));
};
template <>
struct Lanes<1> {
  typedef float type;
};
#else
// Without vector types the compiler is left to vectorise these loops.
template <int W>
struct Lanes {
  struct type {
    float lane[W];
    friend type operator+(type a, type b) {
      for (int i = 0; i < W; ++i) a.lane[i] += b.lane[i];
      return a;
    }
    friend type operator*(float s, type a) {
      for (int i = 0; i < W; ++i) a.lane[i] *= s;
      return a;
    }
    friend type operator*(type a, type b) {
      for (int i = 0; i < W; ++i) a.lane[i] *= b.lane[i];
      return a;
    }
  };
};
template <>
struct Lanes<1> {
  typedef float type;
};
#endif

// sum + factor * x, contracted to one instruction where there is one (the compiler does it for vectors).
template <class X>
inline X multiply_add(float factor, X x, X sum) {
  return sum + factor * x;
}

template <int V>
struct Row {
  static constexpr int width = V >= widest ? widest : V >= 8 ? 8 : V >= 4 ? 4 : 1;
  using Head = typename Lanes<width>::type;

  Head head;
  Row<V - width> tail;

  static Row zero() { return {Head{}, Row<V - width>::zero()}; }

  static Row load(const float* from) {
    Head head;
    std::memcpy(&head, from, sizeof head);
    return {head, Row<V - width>::load(from + width)};
  }

  void store(float* to) const {
    std::memcpy(to, &head, sizeof head);
    tail.store(to + width);
  }

  // this + factor * x
  Row plus(float factor, const Row& x) const {
    return {multiply_add(factor, x.head, head), tail.plus(factor, x.tail)};
  }

  Row operator+(const Row& x) const { return {head + x.head, tail + x.tail}; }

  // Σ this · x
  float dot(const Row& x) const { return sum_of(head * x.head) + tail.dot(x.tail); }

  // this where `valid` is 1, zero where it is 0 (whatever stands there, NaN too)
  Row where(const Row& valid) const {
    float values[V], mask[V];
    store(values);
    valid.store(mask);
    for (int c = 0; c < V; ++c) values[c] = mask[c] != 0 ? values[c] : 0.0f;
    return load(values);
  }

 private:
  static float sum_of(Head product) {
    float lanes[width];
    std::memcpy(lanes, &product, sizeof product);
    for (int half = width / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
  }
};

template <>
struct Row<0> {
  static Row zero() { return {}; }
  static Row load(const float*) { return {}; }
  void store(float*) const {}
  Row plus(float, const Row&) const { return {}; }
  Row operator+(const Row&) const { return {}; }
  float dot(const Row&) const { return 0; }
};

}  // namespace densefield::DENSEFIELD_ISA
