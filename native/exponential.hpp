// exp(x) in float32, written so that loops over it vectorise on every instruction set.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__GNUC__) || defined(__clang__)
#define DENSEFIELD_SIMD _Pragma("omp simd")
#define DENSEFIELD_PRAGMA(text) _Pragma(#text)
#define DENSEFIELD_SIMD_MAX(number) DENSEFIELD_PRAGMA(omp simd reduction(max : number))
#define DENSEFIELD_SIMD_MIN(number) DENSEFIELD_PRAGMA(omp simd reduction(min : number))
#else
#define DENSEFIELD_SIMD
#define DENSEFIELD_SIMD_MAX(number)
#define DENSEFIELD_SIMD_MIN(number)
#endif

namespace densefield::DENSEFIELD_ISA {

// x = n·ln 2 + r with |r| ≤ ½ ln 2; exp(r) by its Taylor polynomial of degree 7 (error below 1e-7 there).
// For x from -87 to 88.
inline float exponential_in_range(float x) {
  const float rounder = 12582912.0f;  // 1.5 · 2²³: adding and taking it away rounds to an integer
  const float n = (x * 1.44269504f + rounder) - rounder;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// For x up to 88.
inline float exponential(float given) {
  const float power = exponential_in_range(given < -87.0f ? -87.0f : given);
  return given < -87.0f ? 0.0f : power;  // which float32 could not hold to its full precision
}

}  // namespace densefield::DENSEFIELD_ISA
