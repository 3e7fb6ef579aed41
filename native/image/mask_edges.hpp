// How the edges of a mask lie in an image: edge strengths of the image by distance and direction from the mask's edge,
// distances from an edge that was moved, and scores that follow from them.
#pragma once

#include <cstdint>

#include "image/label_distance.hpp"

namespace densefield {

// A mask with its distance transform. The label with the higher rank of two is the inner one.
struct MaskView {
  Grid grid;
  const std::int32_t* labels;
  const float* squared_distance;
  const std::int32_t* nearest;
  const std::int32_t* rank;  // of each label
  // (labels, labels): the number of a pair of labels, the same in both orders; -1 for pairs that are left out.
  const std::int32_t* pairs;
  std::int64_t num_labels;

  std::int32_t pair(std::int64_t pixel) const { return pairs[labels[pixel] * num_labels + labels[nearest[pixel]]]; }
};

// How the edge between two labels is moved: by `offset` into the inner label, and by a shift of the whole mask.
struct Displacement {
  float offset, shift_x, shift_y;
};

struct ProfileShape {
  std::int64_t pairs, directions, bins;

  std::int64_t cells() const { return pairs * directions * 2 * bins; }
};

// Adds up the image's edge strength, in 1/256 levels, and the number of pixels, for each pair of labels, direction of the
// outward normal, and distance from the mask's edge: (pairs, directions, 2 · bins), the inner label in the last half.
// `use` is 0 for pixels without a value in the image, 1 for those without a label, else 2.
template <class Number>
void edge_profile(const MaskView& mask, const ImageView<Number>& image, const std::uint8_t* use, float bin_width,
                  const ProfileShape& shape, std::int64_t* strengths, std::int64_t* counts, int threads);

// Signed distance of each pixel to the displaced edge of its pair of labels, positive on its label's own side.
void edge_margins(const MaskView& mask, const Displacement* displacements, float* margins, int threads);

// How far a mask's label is preferred to the one across the edge: strength · (1 - exp(-(margin/width)²)).
struct Confidence {
  float strength, width;
};

// Scores (labels, points) of some pixels: half the preference for the label of the mask and against the one across the
// edge, -strength for all others.
void band_scores(const MaskView& mask, const std::uint8_t* use, const float* margins, const Confidence& confidence,
                 const std::int32_t* points, std::int64_t num_points, float* scores, int threads);

}  // namespace densefield
