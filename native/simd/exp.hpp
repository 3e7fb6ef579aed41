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

// x = n·ln 2 + r with |r| ≤ ½ ln 2; exp(r) is 1 + r plus a fitted polynomial of degree 6 (error below 4e-9), arranged
// for a short chain of dependent operations. For x from -87 to 88.
inline float exponential_in_range(float x) {
  const float rounder = 12583039.0f;  // 1.5 · 2²³ + 127: adding it rounds to an integer, and the last bits are n + 127
  const float rounded = x * 1.44269504f + rounder;
  const float n = rounded - rounder;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const float square = r * r;
  const float above = (0.00836874545f * r + 0.0416683890f) + 0.00138145406f * square;
  const float p = (1.0f + r) + ((0.166665211f * r + 0.499999940f) + above * square) * square;
  std::uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  bits <<= 23;  // moves n + 127 to the exponent
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// For x up to 88.
inline float exponential(float given) {
  const float power = exponential_in_range(given < -87.0f ? -87.0f : given);
  return given < -87.0f ? 0.0f : power;  // would be denormal
}

}  // namespace densefield::DENSEFIELD_ISA
