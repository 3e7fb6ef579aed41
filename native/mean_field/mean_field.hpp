// Mean-field inference on lattices and its gradients, each in one parallel region.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.hpp"
#include "image/pixel_order.hpp"
#include "lattice/filter.hpp"
#include "simd/tile_kernels.hpp"

namespace densefield {

// One kernel of the CRF: z += (diag(after)·K·diag(before) - diag(own)) q μᵀ.
struct Coupling {
  const LatticeFilter* filter;
  float magnitude;
  const float* before;  // (points)
  const float* after;   // (points)
  const float* own;     // (points), or null
  const float* mu;      // 1, L or L² floats
  int rank;             // of μ: 0, 1 or 2

  bool is_potts() const { return rank == 0; }
};

// Division of the points into tiles, and of tiles into units, which are the tasks of workers.
struct Tiling {
  std::int64_t points;
  int num_classes;
  int width;                 // floats of a row of all classes
  std::int64_t unit_points;  // a multiple of kTile and of every lattice's chunk

  Tiling(const std::vector<Coupling>& couplings, std::int64_t all_points, int all_classes);

  int blocks() const { return (num_classes - 1) / max_row + 1; }
  int block_row(int block) const { return block + 1 < blocks() ? max_row : width - block * max_row; }
  std::int64_t units() const { return (points + unit_points - 1) / unit_points; }
  std::int64_t tiles() const { return (points + kTile - 1) / kTile; }
  std::int64_t plane_floats() const { return std::int64_t{num_classes} * kTile; }
  // Marginals of all points, as tiles in planes.
  std::int64_t state_floats() const { return tiles() * plane_floats(); }
  int useful_threads(int threads) const {
    return worth_starting(threads, std::min(units(), points * num_classes >> 14));
  }
};

struct Inference {
  const float* scores;           // (classes, points)
  const float* start = nullptr;  // (classes, points): q⁰; null for the softmax of the scores
  int iterations;
  bool convergent = false;         // minimise the convex part of the free energy in every iteration
  float tolerance = -1;            // stop when no marginal changes by more; negative: never
  float* marginals = nullptr;      // (classes, points), or null
  float* log_marginals = nullptr;  // (classes, points), or null
  float* states = nullptr;         // (iterations, state_floats): q⁰ … q^(T-1), or null
  float* residuals = nullptr;      // (iterations): the largest change of a marginal, or null
  // Order of the couplings' points; scores, start, marginals and log_marginals are row-major. Null if couplings are
  // too.
  const PixelOrder* order = nullptr;
};

// Returns the number of iterations.
int mean_field(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task,
               const TileKernels& kernels, int threads);

// Gradients of one coupling, with a_i = after_i g_i and b_j = before_j (q_j μᵀ), summed over iterations; null members
// are not computed.
struct CouplingGradients {
  double* mu = nullptr;             // like μ: ∂loss/∂μ
  double* moments = nullptr;        // (d, d): Σ_ij k(i,j) (a_i·b_j) (p_i - p_j)(p_i - p_j)ᵀ between vertices
  float* sent = nullptr;            // (points): Σ_j k(i,j) (a_i·b_j)
  float* received = nullptr;        // (points): Σ_j k(j,i) (a_j·b_i)
  float* own = nullptr;             // (points): own_i g_i·(q_i μᵀ)
  const float* features = nullptr;  // (points, d), for slopes
  float* slopes = nullptr;          // (points, d): Σ_j (k(i,j) (a_i·b_j) + k(j,i) (a_j·b_i)) x_j
};

struct BackwardTask {
  const float* cotangent;      // (classes, points): ∂loss/∂log q^T
  const float* log_marginals;  // (classes, points): log q^T
  const float* states;         // (iterations, state_floats): q⁰ … q^(T-1)
  int iterations;
  bool convergent = false;            // as in Inference
  float* scores;                      // (classes, points): ∂loss/∂f
  const PixelOrder* order = nullptr;  // as in Inference
  std::vector<CouplingGradients> gradients{};
};

void mean_field_backward(const std::vector<Coupling>& couplings, const Tiling& tiling, const BackwardTask& task,
                         const TileKernels& kernels, int threads);

}  // namespace densefield
