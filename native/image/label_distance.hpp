// For every pixel the nearest pixel with another label: the exact Euclidean distance transform of all labels at once.
#pragma once

#include <cstdint>

namespace densefield {

// A grid of at most three axes, slowest first; unused axes have size 1.
struct Grid {
  std::int64_t size[3];
  float spacing[3];

  std::int64_t num_pixels() const { return size[0] * size[1] * size[2]; }
};

// The channels of the pixels of a grid, (pixels, channels).
template <class Number>
struct ImageView {
  const Number* values;
  std::int64_t channels;
};

// Writes the squared distance to the nearest pixel with another label, and the index of that pixel. If there is none,
// the distance is infinite and the index -1. Takes O(pixels) for any number of labels.
void nearest_other_label(const Grid& grid, const std::int32_t* labels, float* squared_distance, std::int32_t* nearest,
                         int threads);

}  // namespace densefield
