// Filtering on a lattice: splat, blur, slice, and the derivative of the three.
#pragma once

#include <vector>

#include "base/workspace_pool.hpp"
#include "lattice/lattice.hpp"
#include "base/parallel.hpp"

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

// K = magnitude · S·B·Sᵀ, S holding the barycentric weights and B the blur. Calls may come from several threads.
class LatticeFilter {
 public:
  static constexpr std::int64_t share_grain = 64;  // vertices that gather() hands to one worker together

  LatticeFilter(Lattice lattice, std::vector<Pass> passes, const LatticeKernels& kernels)
      : lattice_(std::move(lattice)), passes_(std::move(passes)), kernels_(kernels) {}

  const Lattice& lattice() const { return lattice_; }
  const LatticeKernels& kernels() const { return kernels_; }

  // Seconds spent in splat, blur and slice.
  struct Times {
    double splat = 0, blur = 0, slice = 0;
  };

  // out = K·values, or Kᵀ·values; `out` must not overlap `values`. Where `times` is given, the phases are timed.
  void apply(const float* values, float* out, Shape shape, bool adjoint, float magnitude, int threads,
             Times* times = nullptr) const;

  // back = Kᵀ·cotangent (batch, points, channels) and slope = ∂⟨cotangent, K·values⟩/∂features (points, d).
  void gradients(const float* cotangent, const float* values, Shape shape, float* back, float* slope,
                 float magnitude, int threads) const;

  // Steps of apply() for those who splat and slice by themselves. rows (vertices) = factor · Σ of the chunks' sums local
  // (slots), both in Columns; all workers take part, and the rows are whole once they have met at a barrier. Where `copy`
  // is given, it gets the same.
  void gather(const Worker& worker, int kind, const float* local, float factor, float* rows,
              float* copy = nullptr) const;
  // rows = B·rows or Bᵀ·rows, in place; waits for the workers before every pass.
  void blur(const Worker& worker, int kind, float* rows, bool adjoint) const;

  // From `moments` (d, d) of pairs between vertices to Σ_ij k(i,j) (w_ij + more_i present_j) (x_i - x_j)(x_i - x_j)ᵀ, in
  // place. sums (points) are Σ_j k(i,j) w_ij; `more` (points), or null, is not in moments and sums; `present` (points) is
  // 0 for points that take no part, or null. `factor` is from moments between vertices to those between points.
  void point_moments(const float* sums, const float* more, const float* present, double factor, float magnitude,
                    double* moments, int threads) const;

  // The factor that makes K·1 the exact Gaussian sum on average.
  float calibrated_magnitude(int threads) const;

  // out[i] = K(i,i). Far slower than apply(): it follows how each simplex spreads.
  void diagonal(float* out, float magnitude, int threads) const;

 private:
  struct Workspace {
    Buffer<float> local;  // (slots) in Columns: the chunks' own sums
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
  int worth(int threads, Shape shape) const;
  std::vector<Block> blocks(Shape shape) const;
  void splat(const Worker& worker, Queue& queue, const Block& block, const float* values, float* local) const;
  void slice(const Worker& worker, Queue& queue, const Block& block, const float* rows, float* out) const;

  Lattice lattice_;
  std::vector<Pass> passes_;
  const LatticeKernels& kernels_;
  mutable WorkspacePool<Workspace> workspaces_;
};

// The points at which the magnitude is measured.
std::vector<std::int64_t> calibration_samples(const Features& features, int dimension, int threads);

}  // namespace densefield
