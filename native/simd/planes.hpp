// Arithmetic on a tile in planes: kTile contiguous points per class, so that every loop over points vectorises.
#pragma once

#include <math.h>

#include "simd/exp.hpp"
#include "simd/tile_kernels.hpp"
#include "simd/transpose.hpp"

namespace densefield::DENSEFIELD_ISA {

inline void copy_tile(const float* from, std::int64_t from_stride, int num_classes, int points, float* to,
                      std::int64_t to_stride) {
  for (int l = 0; l < num_classes; ++l, from += from_stride, to += to_stride) {
    if (points == kTile) {
      for (int p = 0; p < kTile; p += kVectorLanes) store(to + p, load<Vector>(from + p));
    } else {
      for (int p = 0; p < points; ++p) to[p] = from[p];
    }
  }
}

inline void load_tile(const float* array, std::int64_t stride, int num_classes, int points, float* planes) {
  copy_tile(array, stride, num_classes, points, planes, kTile);
}

inline void store_tile(const float* planes, int num_classes, int points, float* array, std::int64_t stride) {
  copy_tile(planes, kTile, num_classes, points, array, stride);
}

inline void add_tile(const float* planes, int num_classes, int points, float* array, std::int64_t stride) {
  for (int l = 0; l < num_classes; ++l) {
    const float* from = planes + l * kTile;
    float* to = array + l * stride;
    DENSEFIELD_SIMD
    for (int p = 0; p < points; ++p) to[p] += from[p];
  }
}

// Rows of more than two classes are padded to a multiple of four, which are moved four at a time.
inline void to_planes(const float* all_rows, int all_classes, bool adds, float* all_planes) {
  for_columns(all_classes, [=](int before, int width) {
    const float* rows = all_rows + before * kTile;
    float* planes = all_planes + before * kTile;
    const int num_classes = all_classes - before < width ? all_classes - before : width;
    if (width < 4) {
      for (int l = 0; l < num_classes; ++l)
        for (int p = 0; p < kTile; ++p)
          planes[l * kTile + p] = (adds ? planes[l * kTile + p] : 0.0f) + rows[p * width + l];
      return;
    }
    for (int l = 0; l < num_classes; l += 4)
      for (int p = 0; p < kTile; p += kVectorLanes)
        load_columns(rows + p * width + l, width, num_classes - l, adds, planes + l * kTile + p, kTile);
  });
}

inline void to_rows(const float* all_planes, int all_classes, float* all_rows) {
  for_columns(all_classes, [=](int before, int width) {
    const float* planes = all_planes + before * kTile;
    float* rows = all_rows + before * kTile;
    const int num_classes = all_classes - before < width ? all_classes - before : width;
    if (width < 4) {
      for (int l = 0; l < num_classes; ++l)
        for (int p = 0; p < kTile; ++p) rows[p * width + l] = planes[l * kTile + p];
      return;
    }
    for (int l = 0; l < num_classes; l += 4)
      for (int p = 0; p < kTile; p += kVectorLanes)
        store_columns(planes + l * kTile + p, kTile, num_classes - l, rows + p * width + l, width);
  });
}

// Largest score of each point, subtracted before exponentials are taken so that none overflows.
inline void largest_of(const float* planes, int num_classes, float* largest) {
  std::memcpy(largest, planes, kTile * sizeof(float));
  for (int l = 1; l < num_classes; ++l) {
    const float* z = planes + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) largest[p] = z[p] > largest[p] ? z[p] : largest[p];
  }
}

inline void scale_planes(const float* planes, const float* factor, int num_classes, float* out) {
  for (int l = 0; l < num_classes; ++l) {
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) out[l * kTile + p] = planes[l * kTile + p] * factor[p];
  }
}

inline void subtract_largest(float* planes, int num_classes, float* largest) {
  largest_of(planes, num_classes, largest);
  for (int l = 0; l < num_classes; ++l) {
    float* z = planes + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) z[p] -= largest[p];
  }
}

inline float exponentials(const float* z, int count, float* out) {
  float largest = z[0];
  DENSEFIELD_SIMD_MAX(largest)
  for (int i = 0; i < count; ++i) {
    largest = z[i] > largest ? z[i] : largest;
    const bool in_range = (z[i] >= min_exponent) & (z[i] <= max_exponent);
    const float power = exponential_in_range(in_range ? z[i] : 0.0f);
    out[i] = in_range ? power : 0.0f;
  }
  return largest;
}

inline void weigh(const float* before, const float* inverse, const float* last, int points, float* factor,
                  float* shift) {
  DENSEFIELD_SIMD
  for (int p = 0; p < points; ++p) {
    factor[p] = before[p] * inverse[p];
    shift[p] = -factor[p] * last[p];
  }
}

inline float invert(float* numbers, int count) {
  float least = numbers[0];
  DENSEFIELD_SIMD_MIN(least)
  for (int i = 0; i < count; ++i) {
    least = numbers[i] < least ? numbers[i] : least;
    numbers[i] = 1.0f / numbers[i];
  }
  return least;
}

inline void softmax(float* planes, int num_classes) {
  float largest[kTile], sum[kTile] = {};
  largest_of(planes, num_classes, largest);
  for (int l = 0; l < num_classes; ++l) {
    float* z = planes + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) {
      const float power = exponential(z[p] - largest[p]);
      z[p] = power;
      sum[p] += power;
    }
  }
  DENSEFIELD_SIMD
  for (int p = 0; p < kTile; ++p) sum[p] = 1.0f / sum[p];
  for (int l = 0; l < num_classes; ++l) {
    float* z = planes + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) z[p] *= sum[p];
  }
}

inline void log_softmax(float* planes, int num_classes) {
  float largest[kTile], sum[kTile] = {};
  largest_of(planes, num_classes, largest);
  for (int l = 0; l < num_classes; ++l) {
    const float* z = planes + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) sum[p] += exponential(z[p] - largest[p]);
  }
  for (int p = 0; p < kTile; ++p) sum[p] = logf(sum[p]);
  for (int l = 0; l < num_classes; ++l) {
    float* z = planes + l * kTile;
    // In this order: the difference of large scores is exact, that of a score and a logarithm is not.
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) z[p] = (z[p] - largest[p]) - sum[p];
  }
}

inline void subtract_own(const float* own, const float* q, int num_classes, int points, float* message) {
  for (int l = 0; l < num_classes; ++l) {
    float* to = message + l * kTile;
    const float* from = q + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < points; ++p) to[p] -= own[p] * from[p];
  }
}

inline void mix(const float* message, const float* mu, int rank, bool transposed, int num_classes, float* planes) {
  for (int l = 0; l < num_classes; ++l) {
    float* to = planes + l * kTile;
    const int begin = rank == 2 ? 0 : l, end = rank == 2 ? num_classes : l + 1;
    for (int other = begin; other < end; ++other) {
      const std::int64_t at = std::int64_t{transposed ? other : l} * num_classes + (transposed ? l : other);
      const float weight = rank == 0 ? mu[0] : rank == 1 ? mu[l] : mu[at];
      const float* from = message + other * kTile;
      DENSEFIELD_SIMD
      for (int p = 0; p < kTile; ++p) to[p] += weight * from[p];
    }
  }
}

inline void log_softmax_adjoint(const float* cotangent, const float* log_q, int num_classes, float* g) {
  float sum[kTile] = {};
  for (int l = 0; l < num_classes; ++l) {
    const float* c = cotangent + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) sum[p] += c[p];
  }
  for (int l = 0; l < num_classes; ++l) {
    const float* c = cotangent + l * kTile;
    const float* log = log_q + l * kTile;
    float* to = g + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) to[p] = c[p] - exponential(log[p]) * sum[p];
  }
}

inline void dot_planes(const float* a, const float* b, int num_classes, float* sums) {
  for (int l = 0; l < num_classes; ++l) {
    const float* left = a + l * kTile;
    const float* right = b + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) sums[p] += left[p] * right[p];
  }
}

inline void softmax_adjoint(const float* h, const float* q, int num_classes, float* g) {
  float mean[kTile] = {};
  dot_planes(h, q, num_classes, mean);
  for (int l = 0; l < num_classes; ++l) {
    const float* from = h + l * kTile;
    const float* softmax = q + l * kTile;
    float* to = g + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) to[p] = softmax[p] * (from[p] - mean[p]);
  }
}

inline float distance(const float* a, const float* b, int num_classes, int points) {
  float largest[kTile] = {}, poison[kTile] = {};  // stays zero unless a number is NaN or infinite
  for (int l = 0; l < num_classes; ++l) {
    const float* left = a + l * kTile;
    const float* right = b + l * kTile;
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) {
      const float difference = fabsf(left[p] - right[p]);
      largest[p] = difference > largest[p] ? difference : largest[p];
      poison[p] += difference * 0.0f;
    }
  }
  float result = 0, wrong = 0;
  for (int p = 0; p < points; ++p) {
    result = largest[p] > result ? largest[p] : result;
    wrong += poison[p];
  }
  return result + wrong;
}

// Sixteen separate sums, so that the loop vectorises without reordering a sum.
inline double inner(const float* a, const float* b, std::int64_t count) {
  constexpr int lanes = 16;
  constexpr std::int64_t run = 4096;  // products summed in float32 before they are added to the double
  double total = 0;
  std::int64_t i = 0;
  while (i + lanes <= count) {
    float sums[lanes] = {};
    const std::int64_t end = i + run < count ? i + run : count;
    for (; i + lanes <= end; i += lanes) {
      DENSEFIELD_SIMD
      for (int lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    }
    for (const float sum : sums) total += sum;
  }
  for (; i < count; ++i) total += static_cast<double>(a[i]) * b[i];
  return total;
}

inline void couple(const float* a, const float* b, int rank, int num_classes, int points, double* total) {
  for (int l = 0; l < num_classes; ++l) {
    const int begin = rank == 2 ? 0 : l, end = rank == 2 ? num_classes : l + 1;
    for (int other = begin; other < end; ++other)
      total[rank == 2 ? std::int64_t{l} * num_classes + other : l] += inner(a + l * kTile, b + other * kTile, points);
  }
}

}  // namespace densefield::DENSEFIELD_ISA
