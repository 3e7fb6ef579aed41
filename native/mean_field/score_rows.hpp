// Scores in rows, ready for exponentials: tiles of all classes but the last, and the last class separately, minus the
// largest score, on which marginals do not depend. Padding is a large negative number. Points are in pixel order if
// given.
#pragma once

#include "mean_field/tiles.hpp"

namespace densefield {

// One tile from planes of all classes minus the largest; `channels` are all classes but the last.
inline void to_score_rows(const TileKernels& kernels, const Tiling& channels, const float* planes, float* rows,
                          float* last) {
  kernels.to_rows(planes, channels.num_classes, rows);
  for_columns(channels.num_classes, [&](int before, int row) {
    for (int l = channels.num_classes - before; l < row; ++l)
      for (int p = 0; p < kTile; ++p) rows[before * kTile + p * row + l] = -1e30f;
  });
  std::memcpy(last, planes + channels.plane_floats(), kTile * sizeof(float));
}

// The inverse of to_score_rows().
inline void from_score_rows(const TileKernels& kernels, const Tiling& channels, const float* rows, const float* last,
                            float* planes) {
  kernels.to_planes(rows, channels.num_classes, false, planes);
  std::memcpy(planes + channels.plane_floats(), last, kTile * sizeof(float));
}

// Floats of all rows, including those of the last tile's missing points.
inline std::int64_t row_floats(const Tiling& channels) { return channels.tiles() * kTile * channels.width; }

// Rows and largest scores of energies.
class EnergyRows {
 public:
  // From energies, the negative scores, (classes, points) in row-major order. `order`, if given, must outlive this.
  EnergyRows(const float* energies, std::int64_t points, int num_classes, const PixelOrder* order,
             const TileKernels& kernels, int threads);

  std::int64_t points() const { return tiling_.points; }
  int num_classes() const { return tiling_.num_classes; }
  const PixelOrder* order() const { return order_; }
  ScoreRows rows() const { return {rows_.data(), last_.data()}; }
  bool finite() const { return finite_; }  // whether all energies are finite

  // Writes the scores (classes, points).
  void fill_scores(const TileKernels& kernels, int threads, float* scores) const;

 private:
  Tiling tiling_, channels_;  // for all classes, and for all but the last
  const PixelOrder* order_;
  Buffer<float> rows_, last_, largest_;
  bool finite_;
};

}  // namespace densefield
