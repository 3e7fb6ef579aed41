// Mean field on lattices: T updates and their back-tracking, each in one go over all threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.hpp"
#include "lattice/filter.hpp"
#include "simd/tile_kernels.hpp"
#include "image/pixel_order.hpp"

namespace densefield {

// One kernel bound to the points: z += (diag(after)·K·diag(before) - diag(own)) q μᵀ.
struct Coupling {
  const LatticeFilter* filter;
  float magnitude;
  const float* before;  // (points)
  const float* after;   // (points)
  const float* own;     // (points), or null
  const float* mu;      // 1, classes or labels² floats
  int rank;             // of μ: 0, 1 or 2

  bool is_potts() const { return rank == 0 && !own; }
};

// Points and classes, cut into tiles; tiles into units that a worker takes at a time.
struct Tiling {
  std::int64_t points;
  int num_classes;
  int width;                 // floats of a row of all classes
  std::int64_t unit_points;  // a multiple of kTile, and of every lattice's chunk

  Tiling(const std::vector<Coupling>& couplings, std::int64_t all_points, int all_classes);

  int blocks() const { return (num_classes - 1) / max_row + 1; }
  int block_row(int block) const { return block + 1 < blocks() ? max_row : width - block * max_row; }
  std::int64_t units() const { return (points + unit_points - 1) / unit_points; }
  std::int64_t tiles() const { return (points + kTile - 1) / kTile; }
  std::int64_t plane_floats() const { return std::int64_t{num_classes} * kTile; }
  // Marginals of all points, tile by tile in planes.
  std::int64_t state_floats() const { return tiles() * plane_floats(); }
};

// A thread takes up to 50 µs to wake: fewer numbers than these do not pay for it.
inline int worth_starting(int threads, const Tiling& tiling) {
  const std::int64_t most = std::min(tiling.units(), tiling.points * tiling.num_classes >> 14);
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, threads));
}

// Scores as rows that exponentials are taken of; see score_rows.hpp.
struct ScoreRows {
  const float* rows;  // (tiles, tile in rows): all classes but the last
  const float* last;  // (tiles, kTile)
};

struct Inference {
  const float* scores;   // (classes, points); unless these are given:
  ScoreRows rows;        // or nulls; they do for marginals of Potts kernels
  const float* start;    // (classes, points): q⁰; the softmax of the scores where it is null
  int iterations;
  float tolerance;       // the loop ends where no marginal changes by more; negative: never
  float* marginals;      // (classes, points), or null
  float* log_marginals;  // (classes, points), or null
  float* states;           // (iterations, state_floats): q⁰ … q^(T-1), or null
  float* residuals;      // (iterations): the largest change of a marginal, or null
  // Where couplings have their points in the order of a order, that order; scores, start, marginals and log_marginals are
  // in the image's own order. Null where that is the order of the couplings too.
  const PixelOrder* order;
};

// Returns how many updates were made.
int mean_field(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task,
               const TileKernels& kernels, int threads);

// What back-tracking finds out about one coupling. With a_i = after_i g_i and b_j = before_j (q_j μᵀ), summed over the
// updates; whatever is null is not computed.
struct CouplingGradients {
  double* mu;             // like μ: ∂loss/∂μ
  double* moments;        // (d, d): Σ_ij k(i,j) (a_i·b_j) (p_i - p_j)(p_i - p_j)ᵀ, p being the vertices of points
  float* sent;            // (points): Σ_j k(i,j) (a_i·b_j)
  float* received;        // (points): Σ_j k(j,i) (a_j·b_i)
  float* own;             // (points): own_i g_i·(q_i μᵀ)
  const float* features;  // (points, d), for slopes
  float* slopes;          // (points, d): Σ_j (k(i,j) (a_i·b_j) + k(j,i) (a_j·b_i)) x_j
};

struct BackwardTask {
  const float* cotangent;      // (classes, points): ∂loss/∂log q^T
  const float* log_marginals;  // (classes, points): log q^T
  const float* states;           // (iterations, state_floats): q⁰ … q^(T-1)
  int iterations;
  float* scores;     // (classes, points): ∂loss/∂f
  const PixelOrder* order;  // as in Inference, for the cotangent, log_marginals and scores
  std::vector<CouplingGradients> gradients;
};

void mean_field_backward(const std::vector<Coupling>& couplings, const Tiling& tiling, const BackwardTask& task,
                const TileKernels& kernels, int threads);

}  // namespace densefield
