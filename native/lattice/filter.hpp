// Filtering on a lattice: splat, blur, slice, and the derivative of the three.
#pragma once

#include <vector>

#include "base/parallel.hpp"
#include "base/workspace_pool.hpp"
#include "lattice/lattice.hpp"

namespace densefield {

// One step of the blur: rows += tap · (previous + next) along `axis`.
struct Pass {
  int axis;
  float tap;
};

// Values of one call: `batch` arrays of (points, channels).
struct Shape {
  std::int64_t batch;
  std::int64_t channels;
};

// K = magnitude · S·B·Sᵀ with S the barycentric weights and B the blur. Calls may come from several threads.
class LatticeFilter {
 public:
  static constexpr std::int64_t share_grain = 64;  // workers of gather() take multiples of this many vertices

  LatticeFilter(Lattice lattice, std::vector<Pass> passes, const LatticeKernels& kernels)
      : lattice_(std::move(lattice)), passes_(std::move(passes)), kernels_(kernels) {}

  const Lattice& lattice() const { return lattice_; }
  const LatticeKernels& kernels() const { return kernels_; }

  // Seconds spent in each phase.
  struct Times {
    double splat = 0, blur = 0, slice = 0;
  };

  // out = K·values, or Kᵀ·values; `out` must not overlap `values`. If `times` is given, the phases are timed.
  void apply(const float* values, float* out, Shape shape, bool adjoint, float magnitude, int threads,
             Times* times = nullptr) const;

  // to_values = Kᵀ·cotangent (batch, points, channels), to_features = ∂⟨cotangent, K·values⟩/∂features (points, d).
  void gradients(const float* cotangent, const float* values, Shape shape, float* to_values, float* to_features,
                 float magnitude, int threads) const;

  // Steps of apply() for mean field, which splats and slices tiles. rows (vertices) = factor · Σ of the chunks' sums
  // `local` (slots), both in Columns, and a copy of rows in `copy` if given. All workers must call it; the rows are
  // complete after a barrier.
  void gather(const Worker& worker, int kind, const float* local, float factor, float* rows,
              float* copy = nullptr) const;
  // rows = B·rows or Bᵀ·rows, in place; waits for all workers before every pass.
  void blur(const Worker& worker, int kind, float* rows, bool adjoint) const;

  // Turns `moments` (d, d) between vertices into Σ_ij k(i,j) (w_ij + extra_i present_j) (x_i - x_j)(x_i - x_j)ᵀ, in
  // place. row_sums (points) are Σ_j k(i,j) w_ij. `extra` (points) or null is not included in moments and row_sums.
  // `present` (points) or null is 0 for points that take no part. `factor` is V/v² of densefield/filters/moments.py.
  void point_moments(const float* row_sums, const float* extra, const float* present, double factor, float magnitude,
                     double* moments, int threads) const;

  // The factor that makes K·1 equal the exact Gaussian sum on average.
  float calibrated_magnitude(int threads) const;

  // out[i] = K(i,i); in more than six dimensions far slower than apply().
  void diagonal(float* out, float magnitude, int threads) const;

 private:
  struct Workspace {
    Buffer<float> local;  // (slots) in Columns: sums of each chunk
    Buffer<float> rows;   // (vertices) in Columns
    Buffer<float> more;   // the same again, for gradients
  };
  // Channels first…first+channels-1 of one array of the batch.
  struct Block {
    std::int64_t offset;
    std::int64_t stride;
    int channels;
    int row;
    int kind;
  };

  void fit(Workspace& space, Shape shape, bool gradients) const;
  template <class Real>
  using GaussianSum = double (*)(const Real*, int, const Real*, const float*, std::int64_t, float);

  template <int W>
  void diagonal_of(float* out, float magnitude, int threads) const;
  template <class Real>
  float calibrate(GaussianSum<Real> gaussian_sum, int threads) const;
  int useful_threads(int threads, Shape shape) const;
  std::vector<Block> blocks(Shape shape) const;
  void splat(const Worker& worker, Queue& queue, const Block& block, const float* values, float* local) const;
  void slice(const Worker& worker, Queue& queue, const Block& block, const float* rows, float* out) const;

  Lattice lattice_;
  std::vector<Pass> passes_;
  const LatticeKernels& kernels_;
  mutable WorkspacePool<Workspace> workspaces_;
};

// The points on which the magnitude is calibrated.
std::vector<std::int64_t> calibration_samples(const Features& features, int dimension, int threads);

}  // namespace densefield
