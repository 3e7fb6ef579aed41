// Scores as rows that exponentials are taken of: tile by tile all classes but the last, and the last by itself, all less the
// largest, which marginals do not depend on; padding is as good as minus infinity. Points are in the order of the order
// where there is one.
#pragma once

#include "mean_field/tiles.hpp"

namespace densefield {

// One tile from planes of all classes less the largest; `channels` are all classes but the last.
inline void to_score_rows(const TileKernels& kernels, const Tiling& channels, const float* planes, float* rows,
                          float* last) {
  kernels.to_rows(planes, channels.num_classes, rows);
  for_columns(channels.num_classes, [&](int before, int row) {
    for (int l = channels.num_classes - before; l < row; ++l)
      for (int p = 0; p < kTile; ++p) rows[before * kTile + p * row + l] = -1e30f;
  });
  std::memcpy(last, planes + channels.plane_floats(), kTile * sizeof(float));
}

// And back.
inline void from_score_rows(const TileKernels& kernels, const Tiling& channels, const float* rows, const float* last,
                            float* planes) {
  kernels.to_planes(rows, channels.num_classes, false, planes);
  std::memcpy(planes + channels.plane_floats(), last, kTile * sizeof(float));
}

// Floats of all rows, of whole tiles.
inline std::int64_t row_floats(const Tiling& channels) { return channels.tiles() * kTile * channels.width; }

// Rows, and each point's largest score, of energies.
class EnergyRows {
 public:
  // From energies, which are minus scores, (classes, points) as callers have them. The order, where there is one, must
  // outlive this.
  EnergyRows(const float* energies, std::int64_t points, int num_classes, const PixelOrder* order, const TileKernels& kernels,
             int threads);

  std::int64_t points() const { return tiling_.points; }
  int num_classes() const { return tiling_.num_classes; }
  const PixelOrder* order() const { return order_; }
  ScoreRows rows() const { return {rows_.data(), last_.data()}; }
  bool finite() const { return finite_; }  // whether all energies were

  // And back to scores (classes, points).
  void fill_scores(const TileKernels& kernels, int threads, float* scores) const;

 private:
  Tiling tiling_, channels_;  // of all classes, and of all but the last
  const PixelOrder* order_;
  Buffer<float> rows_, last_, largest_;
  bool finite_;
};

}  // namespace densefield
