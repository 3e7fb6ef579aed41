// What a Gaussian on a pixel grid does: per axis its taps and, where it is wide, its coarser grid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "grid_kernels.hpp"

namespace densefield {

// One axis: either n pixels blurred with all taps (no weights), or n pixels splatted onto nodes, the nodes
// blurred, and sliced again.
struct GridAxis {
  std::int64_t pixels = 0;
  std::int64_t nodes = 0;  // 0: no coarser grid
  int radius = 0;
  std::vector<float> taps;             // padded for GridKernels::blur
  std::vector<float> derivative_taps;  // the same of d/dsigma
  std::vector<std::int64_t> starts;    // GridCells
  std::vector<float> weights;

  std::int64_t cells() const { return nodes - (kGridSupport - 1); }
};

inline std::vector<float> pad_taps(const float* one_sided, int radius) {
  const int margin = kBlurTile - 1;
  std::vector<float> padded(static_cast<std::size_t>(2 * radius + 1 + 2 * margin), 0.0f);
  for (int r = -radius; r <= radius; ++r) padded[margin + radius + r] = one_sided[r < 0 ? -r : r];
  return padded;
}

// `taps` and `derivative` hold radius + 1 numbers, `cell` none or one per pixel, `weights` kGridSupport each.
inline GridAxis make_grid_axis(std::int64_t pixels, const float* taps, const float* derivative,
                               std::size_t tap_count, const std::int64_t* cell, std::size_t cell_count,
                               const float* weights, std::size_t weight_count) {
  if (pixels < 0) throw std::invalid_argument("an axis of the grid has a negative extent");
  if (tap_count < 1 || tap_count > (1u << 20))
    throw std::invalid_argument("an axis has " + std::to_string(tap_count) + " taps, expected 1 to 2^20");
  GridAxis axis;
  axis.pixels = pixels;
  axis.radius = static_cast<int>(tap_count) - 1;
  axis.taps = pad_taps(taps, axis.radius);
  axis.derivative_taps = pad_taps(derivative, axis.radius);
  if (cell_count == 0) return axis;

  if (cell_count != static_cast<std::size_t>(pixels) || weight_count != cell_count * kGridSupport)
    throw std::invalid_argument("a coarser grid needs one cell and " + std::to_string(kGridSupport) +
                                " weights per pixel");
  const std::int64_t cells = cell[cell_count - 1] + 1;
  axis.nodes = cells + kGridSupport - 1;
  // Not more nodes than pixels: every intermediate array then fits where the result goes.
  if (cell[0] != 0 || cells < 1 || axis.nodes > pixels)
    throw std::invalid_argument("cells must count from 0 and have fewer nodes than pixels");
  axis.starts.assign(static_cast<std::size_t>(axis.nodes) + 1, pixels);
  for (std::int64_t i = pixels; i-- > 0;) {
    if (cell[i] < 0 || cell[i] >= cells || (i > 0 && cell[i - 1] > cell[i]))
      throw std::invalid_argument("cells must not decrease along the axis");
    axis.starts[static_cast<std::size_t>(cell[i])] = i;
  }
  for (std::int64_t c = cells; c-- > 0;)  // a cell without pixels starts where the next one does
    if (axis.starts[c] > axis.starts[c + 1]) axis.starts[c] = axis.starts[c + 1];
  axis.weights.assign(weights, weights + weight_count);
  return axis;
}

enum class GridStep { splat, blur, slice };

// One pass over the data, seen as (outer, n, inner).
struct GridPass {
  GridStep step;
  const GridAxis* axis;
  const float* taps;
  std::int64_t outer, n_in, n_out, inner;

  std::int64_t size_out() const { return outer * n_out * inner; }
};

// Splats first, since all that follows then works on less; slices last, in the opposite order.
// `derivative` names the axis that is blurred with its derivative taps, or is -1.
inline std::vector<GridPass> plan_passes(const std::vector<GridAxis>& axes, std::int64_t batch,
                                         std::int64_t channels, int derivative) {
  const int rank = static_cast<int>(axes.size());
  std::vector<std::int64_t> extent;
  for (const GridAxis& axis : axes) extent.push_back(axis.pixels);
  std::vector<GridPass> passes;
  const auto add = [&](GridStep step, int a, const float* taps, std::int64_t n_out) {
    std::int64_t outer = batch, inner = channels;
    for (int b = 0; b < a; ++b) outer *= extent[b];
    for (int b = a + 1; b < rank; ++b) inner *= extent[b];
    passes.push_back({step, &axes[a], taps, outer, extent[a], n_out, inner});
    extent[a] = n_out;
  };
  for (int a = 0; a < rank; ++a)
    if (axes[a].nodes) add(GridStep::splat, a, nullptr, axes[a].nodes);
  for (int a = rank; a-- > 0;) {
    const bool differs = a == derivative;
    if (axes[a].radius || axes[a].nodes || differs)
      add(GridStep::blur, a, (differs ? axes[a].derivative_taps : axes[a].taps).data(), extent[a]);
  }
  for (int a = rank; a-- > 0;)
    if (axes[a].nodes) add(GridStep::slice, a, nullptr, axes[a].pixels);
  return passes;
}

}  // namespace densefield
