// The interface of mean-field kernels, on a tile of consecutive points.
//
// A tile holds up to kTile points in one of two layouts. Rows: the classes of a point are contiguous, as in the
// lattice, in blocks of up to max_row classes. Planes: the points of a class are contiguous and classes kTile floats
// apart, as in softmax and the arrays of callers; points beyond the last are computed like the others and never used.
#pragma once

#include <cstdint>

#include "simd/lattice_kernels.hpp"

namespace densefield {

inline constexpr int kTile = 64;

// Exponents taken without subtracting the maximum: products of the largest and smallest exponentials, weights and
// inverse sums remain normal float32 numbers, since denormals are slow.
inline constexpr float min_exponent = -50, max_exponent = 30;
inline constexpr float min_sum = 1e-12f;  // of a point's exponentials; exp(min_exponent) is negligible beside it

// Programs of convergent inference are solved when no marginal changes by more than this in a step of Newton's method,
// whose error is the square of the last change.
inline constexpr float program_change = 2e-4f;

// Floats of a row of all classes.
inline constexpr int row_width(int num_classes) { return padded_row(num_classes); }

// Calls task(classes before it, floats of its rows) for every contiguous part of rows of `num_classes` classes.
template <class Task>
inline void for_columns(int num_classes, const Task& task) {
  const int width = row_width(num_classes);
  for (int before = 0; before < width; before += max_row) {
    const int row = width - before < max_row ? width - before : max_row, head = head_of(row);
    task(before, head);
    if (row > head) task(before + head, row - head);
  }
}

struct TileKernels {
  // rows[p] = base[p] + scale · factor_p · Σ_k weight_k · source[slot_k] for points first … first + points - 1 of a
  // chunk; base is zero if null, and may be `rows`
  void (*slice_tile[row_kinds])(const Chunk&, std::int64_t first, int points, Columns<const float> source,
                                const float* factor, float scale, Columns<const float> base, Columns<float> rows);
  // local[slot_k] += weight_k · (factor_p · rows[p] + shift_p)
  void (*splat_tile[row_kinds])(const Chunk&, std::int64_t first, int points, Columns<const float> rows,
                                const float* factor, const float* shift, Columns<float> local);
  // slope[p, e] += scale · factor_p · rows[p] · Σ_k weight_k · source[e][vertex_k]; arrays e are `stride` floats apart
  void (*slice_slopes[row_kinds])(const Chunk&, std::int64_t first, int points, Columns<const float> source,
                                  std::int64_t stride, const float* factor, float scale, Columns<const float> rows,
                                  int dimension, float* slope);
  // out[p] = base[p] + factor_p · rows[p] + shift_p
  void (*add_scaled[row_kinds])(Columns<const float> base, Columns<const float> rows, const float* factor,
                                const float* shift, int points, Columns<float> out);
  // sums[p] += Σ_c rows[p, c]
  void (*add_rows[row_kinds])(Columns<const float> rows, int points, float* sums);
  // out = exp(z) for numbers from min_exponent to max_exponent, zero for others; returns the largest z
  float (*exponentials)(const float* z, int count, float* out);
  // factor = before · inverse, shift = -factor · last
  void (*weigh)(const float* before, const float* inverse, const float* last, int points, float* factor, float* shift);
  // numbers = 1 / numbers; returns the least of the old ones
  float (*invert)(float* numbers, int count);

  // Between a tile, or contiguous points of it, and an array (classes, points) whose first point is at `array`.
  void (*load)(const float* array, std::int64_t stride, int num_classes, int points, float* planes);
  void (*store)(const float* planes, int num_classes, int points, float* array, std::int64_t stride);
  void (*add)(const float* planes, int num_classes, int points, float* array, std::int64_t stride);  // array += planes

  void (*to_planes)(const float* rows, int num_classes, bool adds, float* planes);       // planes = or += rows
  void (*to_rows)(const float* planes, int num_classes, float* rows);                    // padding becomes zero
  void (*scale)(const float* planes, const float* factor, int num_classes, float* out);  // out_l = planes_l · factor
  void (*subtract_largest)(float* planes, int num_classes, float* largest);              // z → z - max_l z
  void (*softmax)(float* planes, int num_classes);                                       // z → q
  void (*log_softmax)(float* planes, int num_classes);                                   // z → log q
  // message_l -= own · q_l
  void (*subtract_own)(const float* own, const float* q, int num_classes, int points, float* message);
  // planes_l += Σ_l′ μ(l, l′) · message_l′, or μ(l′, l) if transposed; μ has 1, L or L² numbers
  void (*mix)(const float* message, const float* mu, int rank, bool transposed, int num_classes, float* planes);

  // log q with log q_l + d_l q_l = c_l - ν and Σ q = 1 by some steps of Newton's method from softmax(c - d · last), and the
  // last change of each point's marginals; the largest c is 0
  void (*solve_programs)(const float* c, const float* d, const float* last, int num_classes, float* log_q,
                         float* change);
  // g = x - y · Σ_l x_l / Σ_l y_l with x = v / (1 + d q), y = q / (1 + d q); v is multiplied by q if `by_marginals`
  void (*program_adjoint)(const float* v, bool by_marginals, const float* q, const float* d, int num_classes, float* g);

  // g = c - q · Σ_l c_l, with log q in `log_q`
  void (*log_softmax_adjoint)(const float* cotangent, const float* log_q, int num_classes, float* g);
  // g = q (h - Σ_l q_l h_l)
  void (*softmax_adjoint)(const float* h, const float* q, int num_classes, float* g);
  // sums[p] += Σ_l a_l · b_l
  void (*dot)(const float* a, const float* b, int num_classes, float* sums);
  // Largest |a - b| among the first `points` points.
  float (*distance)(const float* a, const float* b, int num_classes, int points);
  // total[l] += Σ_p a_l · b_l (rank 0 and 1), or total[l, l′] += Σ_p a_l · b_l′ (rank 2), over the first `points`
  void (*couple)(const float* a, const float* b, int rank, int num_classes, int points, double* total);
};

}  // namespace densefield
