// Scores as rows that powers are taken of: each point's labels side by side, less the largest, which marginals do not
// depend on; padding is as good as minus infinity. Points are in the order of the walk where there is one.
#pragma once

#include "mean_field_pass.hpp"

namespace densefield {

// One tile, (kTile, width), from planes, which are written to.
inline void to_score_rows(const TileKernels& kernels, const Tiling& tiling, float* planes, float* largest, float* rows) {
  kernels.take_largest(planes, tiling.labels, largest);
  kernels.to_rows(planes, tiling.labels, tiling.width, rows);
  for (int p = 0; p < kTile; ++p)
    for (int l = tiling.labels; l < tiling.width; ++l) rows[p * tiling.width + l] = -1e30f;
}

// Floats of all rows, of whole tiles.
inline std::int64_t score_floats(const Tiling& tiling) { return tiling.tiles() * kTile * tiling.width; }

// From energies, which are minus scores, (labels, points) as callers have them; `largest` (points) is what was taken
// away. Returns whether all are finite.
bool score_rows(const float* energies, const Tiling& tiling, const Walk* walk, const TileKernels& kernels, int threads,
                float* rows, float* largest);

// And back to scores (labels, points).
void scores_of_rows(const float* rows, const float* largest, const Tiling& tiling, const Walk* walk,
                    const TileKernels& kernels, int threads, float* scores);

}  // namespace densefield
