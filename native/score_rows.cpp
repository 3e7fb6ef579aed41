#include "score_rows.hpp"

#include <atomic>
#include <limits>

namespace densefield {

namespace {

// Calls task(first point, points, a tile's planes) for every tile, on all threads.
template <class Task>
void for_all_tiles(const Tiling& tiling, int threads, const Task& task) {
  threads = worth_starting(threads, tiling);
  std::vector<Buffer<float>> planes(threads);
  parallel_for(threads, tiling.units(), [&](std::int64_t unit, int worker) {
    if (planes[worker].size() == 0) planes[worker] = Buffer<float>(static_cast<std::size_t>(tiling.plane_floats()));
    for_tiles(tiling, unit,
              [&](std::int64_t first, int points) { task(first, points, planes[worker].data()); });
  });
}

}  // namespace

bool score_rows(const float* energies, const Tiling& tiling, const Walk* walk, const TileKernels& kernels, int threads,
                float* rows, float* largest) {
  std::atomic<bool> finite{true};
  for_all_tiles(tiling, threads, [&](std::int64_t first, int points, float* planes) {
    float of_tile[kTile];
    load_tile(kernels, tiling, walk, energies, first, points, planes);
    fetch_planes(energies, tiling, walk, first + kTile);
    if (first + kTile < tiling.points) fetch(rows + (first + kTile) * tiling.width, kTile * tiling.width);
    if (!kernels.negate(planes, tiling.labels)) finite.store(false, std::memory_order_relaxed);
    to_score_rows(kernels, tiling, planes, of_tile, rows + first * tiling.width);
    std::memcpy(largest + first, of_tile, points * sizeof(float));
  });
  return finite;
}

void scores_of_rows(const float* rows, const float* largest, const Tiling& tiling, const Walk* walk,
                    const TileKernels& kernels, int threads, float* scores) {
  for_all_tiles(tiling, threads, [&](std::int64_t first, int points, float* planes) {
    kernels.to_planes(rows + first * tiling.width, tiling.width, tiling.labels, false, planes);
    for (int l = 0; l < tiling.labels; ++l)
      for (int p = 0; p < points; ++p)  // what is further from the largest than float32 reaches is as good as ruled out
        planes[l * kTile + p] = std::max(planes[l * kTile + p] + largest[first + p], std::numeric_limits<float>::lowest());
    store_tile(kernels, tiling, walk, planes, first, points, scores);
  });
}

}  // namespace densefield
