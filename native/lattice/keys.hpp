// Lattice vertices as 128-bit numbers in mixed radix, so that a step along an axis is one addition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "simd/lattice_kernels.hpp"

namespace densefield {

// Two words without carry between them, added word by word.
struct Key {
  std::uint64_t low;
  std::uint64_t high;

  bool operator==(const Key&) const = default;
  Key operator+(const Key& other) const { return {low + other.low, high + other.high}; }
  Key operator-(const Key& other) const { return {low - other.low, high - other.high}; }

  std::uint64_t hash() const {
    std::uint64_t mixed = low * 0x9e3779b97f4a7c15u ^ (high + 0x7f4a7c15u) * 0xc2b2ae3d27d4eb4fu;
    mixed ^= mixed >> 32;
    return mixed * 0xd6e8feb86659fd93u;
  }
};

// Every coordinate of a vertex is (d+1)·c + r; c_0 … c_{d−1} and the remainder r identify it.
class KeyCode {
 public:
  // `margin`: steps beyond the cells of the points within which keys must be distinct. In single precision, rounding
  // to cells is exact up to a smaller limit.
  KeyCode(const Bounds& bounds, const Embedding& embedding, int margin) : dimension_(embedding.dimension) {
    const int dimension = dimension_;
    const double limit = embedding.single_precision ? 1 << 20 : 1 << 29;
    std::uint64_t word[2] = {static_cast<std::uint64_t>(dimension) + 1, 1};
    int at = 0;
    for (int j = 0; j < dimension; ++j) {
      const double low = std::floor(bounds.low[j]) - 2 - margin, high = std::ceil(bounds.high[j]) + 2 + margin;
      if (!(low > -limit && high < limit)) throw_too_fine(j, std::max(-low, high));
      const std::uint64_t cells = static_cast<std::uint64_t>(high - low) + 1;
      span_ = std::max(span_, high - low);
      if (word[at] > (std::uint64_t{1} << 63) / cells && ++at == 2) throw_too_fine(j, high - low);
      unit_[j] = at == 0 ? Key{word[0], 0} : Key{0, word[1]};
      low_[j] = static_cast<std::int64_t>(low);
      word[at] *= cells;
    }
    if (!(bounds.low[dimension] > -limit && bounds.high[dimension] < limit))
      throw_too_fine(dimension, std::max(-bounds.low[dimension], bounds.high[dimension]));
    narrow_ = at == 0 && word[0] < std::uint64_t{1} << 47;
    unit_[dimension] = {0, 0};  // the last coordinate follows from the others
    Key all{0, 0};
    for (int j = 0; j < dimension; ++j) {
      all = all + unit_[j];
      narrow_code_.unit[j] = unit_[j].low;
      narrow_code_.origin -= static_cast<std::uint64_t>(low_[j]) * unit_[j].low;
    }
    for (int j = 0; j <= dimension; ++j) {
      forward_[j] = Key{1, 0} - unit_[j];
      wrapped_[j] = all - unit_[j] - Key{static_cast<std::uint64_t>(dimension), 0};
    }
  }

  // Key of the corner of remainder 0 of a point's simplex.
  Key base(const std::int32_t* cells) const {
    Key key{0, 0};
    for (int j = 0; j < dimension_; ++j) {
      const auto c = static_cast<std::uint64_t>(std::int64_t{cells[j]} - low_[j]);
      key.low += c * unit_[j].low;
      key.high += c * unit_[j].high;
    }
    return key;
  }

  // The same as a table for kernels, for narrow keys.
  const NarrowCode& narrow_code() const { return narrow_code_; }

  // From corner k−1 to corner k: +1 in every coordinate, −d in `axis`, the one of rank d+1−k.
  Key corner_step(int axis) const { return forward_[axis]; }

  // Whether all keys, including neighbours', are below 2⁴⁷.
  bool is_narrow() const { return narrow_; }

  // Largest number of cells along a coordinate.
  double span() const { return span_; }

  // Least c_j of the box that keys count from.
  std::int64_t low(int axis) const { return low_[axis]; }

  // The d+1 coordinates of a vertex.
  void coordinates(const Key& key, std::int64_t* out) const {
    const std::int64_t rest = remainder(key);
    std::int64_t sum = 0;
    Key left = key;
    for (int j = dimension_ - 1; j >= 0; --j) {  // the largest unit of each word comes last
      std::uint64_t& word = unit_[j].low ? left.low : left.high;
      const std::uint64_t unit = unit_[j].low ? unit_[j].low : unit_[j].high;
      const std::uint64_t cells = word / unit;
      word -= cells * unit;
      out[j] = (dimension_ + 1) * (static_cast<std::int64_t>(cells) + low_[j]) + rest;
      sum += out[j];
    }
    out[dimension_] = -sum;
  }

  int remainder(const Key& key) const { return static_cast<int>(key.low % (dimension_ + 1)); }

  // The next vertex along `axis`.
  Key next(const Key& key, int remainder, int axis) const {
    return key + (remainder == dimension_ ? wrapped_[axis] : forward_[axis]);
  }
  // The previous vertex along `axis`.
  Key previous(const Key& key, int remainder, int axis) const {
    return key - (remainder == 0 ? wrapped_[axis] : forward_[axis]);
  }

 private:
  [[noreturn]] static void throw_too_fine(int axis, double cells) {
    throw std::overflow_error("the features span " + std::to_string(cells) + " lattice cells along axis " +
                              std::to_string(axis) + ", more than lattice keys can hold");
  }

  int dimension_;
  double span_ = 0;
  bool narrow_ = false;
  NarrowCode narrow_code_{};
  std::int64_t low_[max_dimension];
  Key unit_[max_corners];
  Key forward_[max_corners];
  Key wrapped_[max_corners];
};

}  // namespace densefield
