// A row of V channels in registers, composed of the widest vectors of the instruction set.
#pragma once

#include <type_traits>

#include "simd/lattice_kernels.hpp"
#include "simd/vector.hpp"

namespace densefield::DENSEFIELD_ISA {

template <int V>
struct Row {
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

  // The same with the first H channels at one address and the others at another.
  template <int H>
  static Row load_parts(const float* from, const float* rest) {
    if constexpr (H == 0)
      return load(rest);
    else
      return {densefield::DENSEFIELD_ISA::load<Head>(from),
              Row<V - width>::template load_parts<H - width>(from + width, rest)};
  }
  template <int H>
  void store_parts(float* to, float* rest) const {
    if constexpr (H == 0) {
      store(rest);
    } else {
      densefield::DENSEFIELD_ISA::store(to, head);
      tail.template store_parts<H - width>(to + width, rest);
    }
  }

  // this + factor * x
  Row plus(Factor factor, const Row& x) const {
    return {multiply_add(x.head, factor, head), tail.plus(factor, x.tail)};
  }

  Row operator+(const Row& x) const { return {head + x.head, tail + x.tail}; }
  Row operator*(const Row& x) const { return {head * x.head, tail * x.tail}; }

  // Sum of all channels.
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
  float dot(const Row& x) const { return (*this * x).total(); }

  // this where `valid` is 1, zero where it is 0 even for NaN
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
};

template <>
struct Row<0> {
  static Row zero() { return {}; }
  static Row filled(float) { return {}; }
  static Row load(const float*) { return {}; }
  void store(float*) const {}
  template <int H>
  static Row load_parts(const float*, const float*) {
    return {};
  }
  template <int H>
  void store_parts(float*, float*) const {}
  Row plus(Factor, const Row&) const { return {}; }
  Row operator+(const Row&) const { return {}; }
  Row operator*(const Row&) const { return {}; }
  float total() const { return 0; }
};

// Calls task(C) with the number of corners as a compile-time constant for common dimensions (images and volumes, either
// without colours, grey or with three), else with 0.
template <class Task>
inline void with_corners(int corners, const Task& task) {
  switch (corners) {
    case 3: return task(std::integral_constant<int, 3>{});
    case 4: return task(std::integral_constant<int, 4>{});
    case 5: return task(std::integral_constant<int, 5>{});
    case 6: return task(std::integral_constant<int, 6>{});
    case 7: return task(std::integral_constant<int, 7>{});
    default: return task(std::integral_constant<int, 0>{});
  }
}

template <int V>
inline Row<V> load_row(Columns<const float> from, std::int64_t index) {
  constexpr int head = head_of(V);
  return Row<V>::template load_parts<head>(from.head + index * head, from.tail + index * (V - head));
}

template <int V>
inline void store_row(const Row<V>& row, Columns<float> to, std::int64_t index) {
  constexpr int head = head_of(V);
  row.template store_parts<head>(to.head + index * head, to.tail + index * (V - head));
}

}  // namespace densefield::DENSEFIELD_ISA
