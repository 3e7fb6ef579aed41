// The programs of convergent inference on a tile in planes, for D = diag(d): their solution by Newton's method, and its adjoint.
#pragma once

#include "simd/planes.hpp"

namespace densefield::DENSEFIELD_ISA {

// Newton's method on a = log q and ν together: with s_l = 1 / (1 + d_l q_l) and r_l = c_l - a_l - d_l q_l,
// ν = (Σ q s r + Σ q - 1) / Σ q s and a_l += s_l (r_l - ν).
inline void solve_programs(const float* c, const float* d, const float* last, int num_classes, float* log_q,
                           float* change) {
  constexpr int most_steps = 8;
  for (int l = 0; l < num_classes; ++l) {
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) {
      const int at = l * kTile + p;
      log_q[at] = c[at] - d[at] * last[at];
    }
  }
  log_softmax(log_q, num_classes);
  float nu[kTile] = {};
  for (int step = 0; step < most_steps; ++step) {
    float sum[kTile] = {}, weighted[kTile] = {}, weight[kTile] = {};
    for (int l = 0; l < num_classes; ++l) {
      DENSEFIELD_SIMD
      for (int p = 0; p < kTile; ++p) {
        const int at = l * kTile + p;
        const float q = exponential(log_q[at]), w = d[at] * q, share = q / (1.0f + w);
        sum[p] += q;
        weight[p] += share;
        weighted[p] += share * (c[at] - log_q[at] - w);
      }
    }
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) {
      nu[p] = (weighted[p] + (sum[p] - 1.0f)) / weight[p];
      change[p] = 0;
    }
    float largest = 0;
    for (int l = 0; l < num_classes; ++l) {
      DENSEFIELD_SIMD
      for (int p = 0; p < kTile; ++p) {
        const int at = l * kTile + p;
        const float before = exponential(log_q[at]), w = d[at] * before;
        const float moved = log_q[at] + (c[at] - log_q[at] - w - nu[p]) / (1.0f + w);
        const float next = moved < 0.0f ? moved : 0.0f;  // no marginal is above one
        const float difference = fabsf(exponential(next) - before);
        log_q[at] = next;
        change[p] = difference <= change[p] ? change[p] : difference;  // NaN stays
      }
    }
    DENSEFIELD_SIMD_MAX(largest)
    for (int p = 0; p < kTile; ++p) largest = change[p] > largest ? change[p] : largest;
    if (largest <= program_change) break;
  }
  // The same from ν, where the difference of large numbers is exact.
  for (int l = 0; l < num_classes; ++l) {
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) {
      const int at = l * kTile + p;
      log_q[at] = (c[at] - nu[p]) - d[at] * exponential(log_q[at]);
    }
  }
}

inline void program_adjoint(const float* v, bool by_marginals, const float* q, const float* d, int num_classes,
                            float* g) {
  float of_v[kTile] = {}, of_q[kTile] = {};
  for (int l = 0; l < num_classes; ++l) {
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) {
      const int at = l * kTile + p;
      const float share = 1.0f / (1.0f + d[at] * q[at]);
      g[at] = v[at] * (by_marginals ? q[at] : 1.0f) * share;
      of_v[p] += g[at];
      of_q[p] += q[at] * share;
    }
  }
  DENSEFIELD_SIMD
  for (int p = 0; p < kTile; ++p) of_v[p] /= of_q[p] > 0.0f ? of_q[p] : 1.0f;
  for (int l = 0; l < num_classes; ++l) {
    DENSEFIELD_SIMD
    for (int p = 0; p < kTile; ++p) {
      const int at = l * kTile + p;
      g[at] -= q[at] / (1.0f + d[at] * q[at]) * of_v[p];
    }
  }
}

}  // namespace densefield::DENSEFIELD_ISA
