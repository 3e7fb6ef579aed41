// The Gaussian on a pixel grid: the passes of its plan, one after another, each on all threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "buffer.hpp"
#include "dispatch.hpp"
#include "free_list.hpp"
#include "grid_pass.hpp"
#include "grid_plan.hpp"
#include "parallel.hpp"

namespace densefield {

class GridFilter {
 public:
  GridFilter(std::vector<GridAxis> axes, const std::string& simd)
      : axes_(std::move(axes)), kernels_(kernels(simd).grid) {
    for (const GridAxis& axis : axes_) {
      if (axis.pixels > 0 && points_ > (std::int64_t{1} << 60) / axis.pixels)
        throw std::invalid_argument("the grid has more than 2^60 points");
      points_ *= axis.pixels;
    }
  }

  std::int64_t points() const { return points_; }

  // out = K values, both (batch, points, channels) and apart from each other.
  void apply(const float* values, float* out, std::int64_t batch, std::int64_t channels, int threads) {
    run(values, out, batch, channels, threads, -1);
  }

  // d/dsigma of <cotangent, K values> for every axis.
  std::vector<double> sigma_gradient(const float* cotangent, const float* values, std::int64_t batch,
                                     std::int64_t channels, int threads) {
    const std::int64_t size = batch * points_ * channels;
    std::vector<double> gradient(axes_.size(), 0.0);
    if (size == 0) return gradient;
    FreeList<Buffer<float>>::Lease lease(workspaces_);
    float* derivative = at_least(*lease, static_cast<std::size_t>(size));
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      run(values, derivative, batch, channels, threads, static_cast<int>(axis));
      gradient[axis] = dot(cotangent, derivative, size, threads);
    }
    return gradient;
  }

 private:
  static constexpr std::int64_t kWorthAThread = 1 << 17;  // numbers; fewer do not pay for starting it
  static constexpr std::int64_t kDotBlock = 1 << 14;

  static float* at_least(Buffer<float>& buffer, std::size_t size) {
    if (buffer.size() < size) buffer = Buffer<float>(size);
    return buffer.data();
  }

  static int threads_for(std::int64_t size, int threads) {
    return static_cast<int>(std::clamp<std::int64_t>(size / kWorthAThread, 1, threads));
  }

  // K with the taps of axis `derivative` replaced by their derivative, or K itself for -1.
  void run(const float* values, float* out, std::int64_t batch, std::int64_t channels, int threads,
           int derivative) {
    const std::int64_t size = batch * points_ * channels;
    if (size == 0) return;
    const std::vector<GridPass> passes = plan_passes(axes_, batch, channels, derivative);
    if (passes.empty()) {
      std::memcpy(out, values, static_cast<std::size_t>(size) * sizeof(float));
      return;
    }
    // Intermediate arrays stand in `out` and in the workspace by turns, such that the last one is `out`.
    std::int64_t shared = 0;
    std::size_t scratch = 0;
    for (std::size_t p = 0; p < passes.size(); ++p) {
      if ((passes.size() - p) % 2 == 0) shared = std::max(shared, passes[p].size_out());
      scratch = std::max(scratch, GridItems::scratch(passes[p]));
    }
    threads = threads_for(size, threads);
    FreeList<Buffer<float>>::Lease lease(workspaces_);
    float* workspace = at_least(*lease, static_cast<std::size_t>(shared) + scratch * threads);
    std::vector<GridItems> items;
    std::deque<Queue> queues;
    const float* source = values;
    for (std::size_t p = 0; p < passes.size(); ++p) {
      float* target = (passes.size() - p) % 2 ? out : workspace;
      items.emplace_back(kernels_, passes[p], source, target);
      queues.emplace_back(items.back().count(), threads);
      source = target;
    }
    parallel(threads, [&](const Worker& worker) {
      float* own = workspace + shared + scratch * worker.index;
      for (std::size_t p = 0; p < items.size(); ++p) {
        queues[p].drain(worker, [&](std::int64_t item) { items[p].run(item, own); });
        worker.sync();
      }
    });
  }

  // Blocks of fixed length, added up in order: the same bits on any number of threads.
  double dot(const float* a, const float* b, std::int64_t size, int threads) const {
    std::vector<double> sums(static_cast<std::size_t>((size + kDotBlock - 1) / kDotBlock));
    parallel_for(threads_for(size, threads), static_cast<std::int64_t>(sums.size()), [&](std::int64_t block, int) {
      const std::int64_t first = block * kDotBlock;
      sums[static_cast<std::size_t>(block)] = kernels_.dot(a + first, b + first, std::min(kDotBlock, size - first));
    });
    double sum = 0;
    for (const double part : sums) sum += part;
    return sum;
  }

  std::vector<GridAxis> axes_;
  const GridKernels& kernels_;
  std::int64_t points_ = 1;
  FreeList<Buffer<float>> workspaces_;
};

}  // namespace densefield
