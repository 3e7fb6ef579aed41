#include "mean_field/score_rows.hpp"

#include <atomic>
#include <limits>

namespace densefield {

namespace {

// Calls task(first point, points, planes of the tile) for every tile, on all threads.
template <class Task>
void for_all_tiles(const Tiling& tiling, int threads, const Task& task) {
  threads = tiling.useful_threads(threads);
  std::vector<Buffer<float>> planes(threads);
  parallel_for(threads, tiling.units(), [&](std::int64_t unit, int worker) {
    if (planes[worker].size() == 0) planes[worker] = Buffer<float>(static_cast<std::size_t>(tiling.plane_floats()));
    for_tiles(tiling, unit, [&](std::int64_t first, int points) { task(first, points, planes[worker].data()); });
  });
}

}  // namespace

EnergyRows::EnergyRows(const float* energies, std::int64_t points, int num_classes, const PixelOrder* order,
                       const TileKernels& kernels, int threads)
    : tiling_({}, points, num_classes),
      channels_({}, points, num_classes - 1),
      order_(order),
      rows_(static_cast<std::size_t>(row_floats(channels_))),
      last_(static_cast<std::size_t>(tiling_.tiles() * kTile)),
      largest_(last_.size()) {
  std::atomic<bool> finite{true};
  for_all_tiles(tiling_, threads, [&](std::int64_t first, int here, float* planes) {
    float* rows = rows_.data() + first * channels_.width;
    load_tile(kernels, tiling_, order, energies, first, here, planes);
    prefetch_planes(energies, tiling_, order, first + kTile);
    if (first + kTile < tiling_.points) prefetch(rows + kTile * channels_.width, kTile * channels_.width);
    if (!kernels.from_energies(planes, tiling_.num_classes, largest_.data() + first))
      finite.store(false, std::memory_order_relaxed);
    to_score_rows(kernels, channels_, planes, rows, last_.data() + first);
  });
  finite_ = finite;
}

void EnergyRows::fill_scores(const TileKernels& kernels, int threads, float* scores) const {
  for_all_tiles(tiling_, threads, [&](std::int64_t first, int points, float* planes) {
    from_score_rows(kernels, channels_, rows_.data() + first * channels_.width, last_.data() + first, planes);
    for (int l = 0; l < tiling_.num_classes; ++l)
      for (int p = 0; p < points; ++p)  // below the range of float32: impossible classes
        planes[l * kTile + p] =
            std::max(planes[l * kTile + p] + largest_[first + p], std::numeric_limits<float>::lowest());
    store_tile(kernels, tiling_, order_, planes, first, points, scores);
  });
}

}  // namespace densefield
