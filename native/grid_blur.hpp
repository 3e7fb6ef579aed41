// The Gaussian with all its taps along one axis: for narrow kernels, and between the nodes of wide ones.
#pragma once

#include "grid_kernels.hpp"
#include "grid_vector.hpp"

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

}  // namespace densefield::DENSEFIELD_ISA
