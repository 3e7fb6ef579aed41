// A row of V channels in registers, made of the widest vectors the instruction set has; and rows in columns.
#pragma once

#include "lattice_kernels.hpp"
#include "vector.hpp"

namespace densefield::DENSEFIELD_ISA {

template <int V>
struct Row {
  static_assert(V <= column);
  static constexpr int width = V >= kVectorLanes ? kVectorLanes : V >= 8 ? 8 : V >= 4 ? 4 : 1;
  using Head = VectorType<width>;

  Head head;
  Row<V - width> tail;

  static Row zero() { return {Head{}, Row<V - width>::zero()}; }

  static Row filled(float number) {
    float lanes[width];
    for (float& lane : lanes) lane = number;
    return {densefield::DENSEFIELD_ISA::load<Head>(lanes), Row<V - width>::filled(number)};
  }

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
  static Row filled(float) { return {}; }
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

// More channels than a column has: those of one, and the others.
template <int V>
  requires(V > column)
struct Row<V> {
  Row<column> head;
  Row<V - column> tail;

  static Row zero() { return {Row<column>::zero(), Row<V - column>::zero()}; }
  static Row filled(float number) { return {Row<column>::filled(number), Row<V - column>::filled(number)}; }
  static Row load(const float* from) { return {Row<column>::load(from), Row<V - column>::load(from + column)}; }
  void store(float* to) const {
    head.store(to);
    tail.store(to + column);
  }
  template <class Number>
  Row plus(Number factor, const Row& x) const {
    return {head.plus(factor, x.head), tail.plus(factor, x.tail)};
  }
  Row operator+(const Row& x) const { return {head + x.head, tail + x.tail}; }
  float total() const { return Row<4>{head.quad() + tail.quad(), {}}.total(); }
  float dot(const Row& x) const { return head.dot(x.head) + tail.dot(x.tail); }
  Row where(const Row& valid) const { return {head.where(valid.head), tail.where(valid.tail)}; }
};

template <int V>
inline Row<V> load_row(Columns<const float> from, std::int64_t index) {
  if constexpr (V > column)
    return {Row<column>::load(from.head + index * column), Row<V - column>::load(from.tail + index * (V - column))};
  else
    return Row<V>::load(from.head + index * V);
}

template <int V>
inline void store_row(const Row<V>& row, Columns<float> to, std::int64_t index) {
  if constexpr (V > column) {
    row.head.store(to.head + index * column);
    row.tail.store(to.tail + index * (V - column));
  } else {
    row.store(to.head + index * V);
  }
}

}  // namespace densefield::DENSEFIELD_ISA
