// The Gaussian with all its taps along one axis: for narrow kernels, and between the nodes of wide ones.
#pragma once

#include "grid_kernels.hpp"
#include "vector.hpp"

namespace densefield::DENSEFIELD_ISA {

// kBlurTile rows × Width vectors of the output stay in registers while the rows they need pass by once.
template <int Width>
inline void blur_tile(GridRows in, std::int64_t from, std::int64_t to, const float* taps, int radius,
                      std::int64_t row, int rows, float* out, std::int64_t out_stride) {
  Vector sum[kBlurTile][Width] = {};
  const std::int64_t first = row - radius > from ? row - radius : from;
  const std::int64_t beyond = row + radius + kBlurTile < to ? row + radius + kBlurTile : to;
  const float* tap = taps + (first - row + radius + kBlurTile - 1);
  const float* source = in.data + first * in.stride;
  for (std::int64_t j = first; j < beyond; ++j, ++tap, source += in.stride) {
    Vector value[Width];
    DENSEFIELD_UNROLL
    for (int s = 0; s < Width; ++s) value[s] = load<Vector>(source + s * kVectorLanes);
    DENSEFIELD_UNROLL
    for (int t = 0; t < kBlurTile; ++t) {
      DENSEFIELD_UNROLL
      for (int s = 0; s < Width; ++s) sum[t][s] = multiply_add(value[s], tap[-t], sum[t][s]);
    }
  }
  DENSEFIELD_UNROLL
  for (int t = 0; t < kBlurTile; ++t) {
    if (t >= rows) break;
    DENSEFIELD_UNROLL
    for (int s = 0; s < Width; ++s) store(out + t * out_stride + s * kVectorLanes, sum[t][s]);
  }
}

inline void blur(GridRows in, std::int64_t from, std::int64_t to, const float* taps, int radius,
                 std::int64_t begin, std::int64_t end, float* out, std::int64_t out_stride, int lanes) {
  constexpr int width = kVectorLanes == 16 ? 4 : 2;  // as many sums as the register file holds
  for (std::int64_t row = begin; row < end; row += kBlurTile) {
    const int rows = static_cast<int>(end - row < kBlurTile ? end - row : kBlurTile);
    float* target = out + (row - begin) * out_stride;
    int lane = 0;
    for (; lane + width * kVectorLanes <= lanes; lane += width * kVectorLanes)
      blur_tile<width>({in.data + lane, in.stride}, from, to, taps, radius, row, rows, target + lane,
                       out_stride);
    for (; lane < lanes; lane += kVectorLanes)
      blur_tile<1>({in.data + lane, in.stride}, from, to, taps, radius, row, rows, target + lane, out_stride);
  }
}

// Width vectors of one line, for rows of so few numbers that putting lanes side by side would cost more.
template <int Width>
inline void blur_strip(const float* line, std::int64_t stride, const float* taps, int radius, float* out) {
  Vector sum[Width] = {};
  const float* source = line - radius * stride;
  for (int r = 0; r <= 2 * radius; ++r, source += stride) {
    DENSEFIELD_UNROLL
    for (int s = 0; s < Width; ++s)
      sum[s] = multiply_add(load<Vector>(source + s * kVectorLanes), taps[r], sum[s]);
  }
  DENSEFIELD_UNROLL
  for (int s = 0; s < Width; ++s) store(out + s * kVectorLanes, sum[s]);
}

inline void blur_line(const float* line, std::int64_t stride, const float* taps, int radius,
                      std::int64_t count, float* out) {
  constexpr int width = 8;  // sums enough to hide the latency of one
  const float* first_tap = taps + kBlurTile - 1;
  std::int64_t x = 0;
  for (; x + width * kVectorLanes <= count; x += width * kVectorLanes)
    blur_strip<width>(line + x, stride, first_tap, radius, out + x);
  for (; x + kVectorLanes <= count; x += kVectorLanes)
    blur_strip<1>(line + x, stride, first_tap, radius, out + x);
  if (x == count) return;
  float rest[kVectorLanes];
  blur_strip<1>(line + x, stride, first_tap, radius, rest);
  std::memcpy(out + x, rest, static_cast<std::size_t>(count - x) * sizeof(float));
}

}  // namespace densefield::DENSEFIELD_ISA
