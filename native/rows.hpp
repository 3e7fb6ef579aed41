// A row of V channels in registers, made of the widest vectors the instruction set has.
#pragma once

#include "vector.hpp"

namespace densefield::DENSEFIELD_ISA {

template <int V>
struct Row {
  static constexpr int width = V >= kVectorLanes ? kVectorLanes : V >= 8 ? 8 : V >= 4 ? 4 : 1;
  using Head = VectorType<width>;

  Head head;
  Row<V - width> tail;

  static Row zero() { return {Head{}, Row<V - width>::zero()}; }

  static Row load(const float* from) {
    return {densefield::DENSEFIELD_ISA::load<Head>(from), Row<V - width>::load(from + width)};
  }

  void store(float* to) const {
    densefield::DENSEFIELD_ISA::store(to, head);
    tail.store(to + width);
  }

  // this + factor * x
  template <class Number>
  Row plus(Number factor, const Row& x) const {
    return {multiply_add(x.head, factor, head), tail.plus(factor, x.tail)};
  }

  Row operator+(const Row& x) const { return {head + x.head, tail + x.tail}; }

  // Σ of all channels
  float total() const {
    if constexpr (V < 4)
      return head + tail.total();
    else
      return sum_lanes<4>(quad());
  }
  // Four sums of every fourth channel.
  VectorType<4> quad() const {
    if constexpr (V == width)
      return folded<width>(head);
    else
      return folded<width>(head) + tail.quad();
  }

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
  template <int Lanes>
  static VectorType<4> folded(VectorType<Lanes> lanes) {
    if constexpr (Lanes <= 4) {
      return lanes;
    } else {
      VectorType<Lanes / 2> halves[2];
      std::memcpy(halves, &lanes, sizeof lanes);
      return folded<Lanes / 2>(halves[0] + halves[1]);
    }
  }
  template <int Lanes>
  static float sum_lanes(VectorType<Lanes> lanes) {
    if constexpr (Lanes == 1) {
      return lanes;
    } else {
      VectorType<Lanes / 2> halves[2];
      std::memcpy(halves, &lanes, sizeof lanes);
      return sum_lanes<Lanes / 2>(halves[0] + halves[1]);
    }
  }
  static float sum_of(Head product) { return sum_lanes<width>(product); }
};

template <>
struct Row<0> {
  static Row zero() { return {}; }
  static Row load(const float*) { return {}; }
  void store(float*) const {}
  template <class Number>
  Row plus(Number, const Row&) const {
    return {};
  }
  Row operator+(const Row&) const { return {}; }
  float dot(const Row&) const { return 0; }
  float total() const { return 0; }
};

}  // namespace densefield::DENSEFIELD_ISA
