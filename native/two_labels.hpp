// Mean field for two labels and Potts kernels, in one number for each point: with z = z₁ - z₂ and δ = q₁ - q₂ the update
// z = f₁ - f₂ + Σ_m μ_m K̂_m δ, δ = tanh(z/2) is the same as that of both labels, whatever the marginals sum to.
#pragma once

#include "updates.hpp"

namespace densefield {

class TwoLabels final : public Updates {
 public:
  // `tiling` is that of both labels, `one` that of their difference.
  TwoLabels(const std::vector<Coupling>& couplings, const Tiling& tiling, const Tiling& one, const Inference& task,
            const TileKernels& kernels, int threads)
      : Updates(couplings, one, task, kernels, threads),
        tiling_(tiling),
        scores_(static_cast<std::size_t>(tiling.tiles() * kTile)),
        last_(shows_changes() ? scores_.size() : 0) {}

 private:
  float tile_pass(const Worker&, int pass, std::int64_t first, int points) override {
    if (pass == 0) keep_scores(first, points);
    float sums[kTile] = {}, delta[kTile];
    const float* z = scores_.data() + first;
    for (std::size_t m = 0; pass > 0 && m < couplings_.size(); ++m) {
      corners(m, first, points).collect(fields_[m].rows(), couplings_[m].after, couplings_[m].mu[0], z, sums);
      z = sums;
    }
    if (may_be_last(pass)) show(first, points, z);
    if (pass == task_.iterations && !shows_changes()) return 0;
    if (pass == 0 && task_.start)
      load_difference(task_.start, first, points, delta);
    else
      kernels_.half_tangents(z, kTile, delta);
    const float change = shows_changes() ? remember(pass, first, points, delta) : 0.0f;
    if (pass == task_.iterations) return change;
    for (std::size_t m = 0; m < couplings_.size(); ++m)
      corners(m, first, points).spread(delta, couplings_[m].before + first, nothing, locals_[m].sums());
    return change;
  }

  // Marginals, and their logarithms, to whoever asked for them.
  void show(std::int64_t first, int points, const float* z) const {
    float planes[2 * kTile] = {}, logarithms[2 * kTile];
    std::copy_n(z, kTile, planes);
    if (task_.log_marginals) {
      std::copy_n(planes, 2 * kTile, logarithms);
      kernels_.log_softmax(logarithms, 2);
      store_tile(kernels_, tiling_, task_.order, logarithms, first, points, task_.log_marginals);
    }
    kernels_.softmax(planes, 2);
    store_tile(kernels_, tiling_, task_.order, planes, first, points, task_.marginals);
  }

  // Kept from overflowing, since softmax would make NaN of an infinite one.
  static float difference(float a, float b) { return std::clamp(a - b, -1e30f, 1e30f); }

  // f₁ - f₂
  void keep_scores(std::int64_t first, int points) {
    float* scores = scores_.data() + first;
    if (!task_.rows.rows) return load_difference(task_.scores, first, points, scores);
    for (int p = 0; p < kTile; ++p) scores[p] = difference(task_.rows.rows[first + p], task_.rows.last[first + p]);
  }

  void load_difference(const float* array, std::int64_t first, int points, float* out) const {
    float planes[2 * kTile];
    load_tile(kernels_, tiling_, task_.order, array, first, points, planes);
    for (int p = 0; p < kTile; ++p) out[p] = difference(planes[p], planes[kTile + p]);
  }

  // By how much a marginal changed, which is half as much as the difference of both.
  float remember(int pass, std::int64_t first, int points, const float* delta) {
    float change = 0;
    float* last = last_.data() + first;
    for (int p = 0; pass > 0 && p < points; ++p) change = larger_change(change, std::abs(delta[p] - last[p]) / 2);
    std::copy_n(delta, points, last);
    return change;
  }

  const Tiling& tiling_;
  Buffer<float> scores_;  // (tiles, kTile)
  Buffer<float> last_;    // δ of the last pass, where it is asked for
};

}  // namespace densefield
