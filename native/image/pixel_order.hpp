// The order in which an image's pixels are gone through: blocks of them, along a Z-shaped curve. What is near in it is near
// in the image, above and below as well as to either side, so that it shares more vertices of a lattice than whole rows of
// pixels do.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "simd/tile_kernels.hpp"

namespace densefield {

// Points that lie side by side both in the image and in the order, within one tile of the order.
struct Run {
  std::int64_t pixel;  // in the image, row by row
  std::int64_t place;  // in the order
  int count;
};

class PixelOrder {
 public:
  PixelOrder(std::int64_t height, std::int64_t width)
      : height_(height), width_(width), across_(width / block_width), left_over_(width % block_width) {
    // Whole blocks first, each of whose rows fills a tile; then the columns that are left over, row by row.
    const std::int64_t down = (height + block_height - 1) / block_height;
    visit(0, 0, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(across_, down)))));
    strip_ = static_cast<std::int64_t>(rows_.size()) * block_width;
  }

  std::int64_t num_pixels() const { return height_ * width_; }
  std::int64_t width() const { return width_; }

  std::int64_t pixel(std::int64_t place) const {
    return run(place, num_pixels()).pixel;
  }

  // Calls task(run) for points first … last-1 of the order; `first` is a tile's.
  template <class Task>
  void for_runs(std::int64_t first, std::int64_t last, const Task& task) const {
    for (std::int64_t place = first; place < last;) {
      const Run here = run(place, last);
      task(here);
      place += here.count;
    }
  }

 private:
  static constexpr std::int64_t block_width = kTile, block_height = 32;

  // From a place on, as far as the next row of pixels, the next tile or the end.
  Run run(std::int64_t place, std::int64_t last) const {
    if (place < strip_) {
      const std::int64_t beside = place % block_width;
      return {rows_[place / block_width] + beside, place, static_cast<int>(std::min(block_width - beside, last - place))};
    }
    const std::int64_t y = (place - strip_) / left_over_, beside = (place - strip_) % left_over_;
    const std::int64_t most = std::min({left_over_ - beside, kTile - place % kTile, last - place});
    return {y * width_ + across_ * block_width + beside, place, static_cast<int>(most)};
  }

  // A square of `size` × `size` blocks: its quarters above, then those below.
  void visit(std::int64_t x, std::int64_t y, std::int64_t size) {
    if (x >= across_ || y * block_height >= height_) return;
    if (size > 1) {
      for (int quarter = 0; quarter < 4; ++quarter)
        visit(x + quarter % 2 * size / 2, y + quarter / 2 * size / 2, size / 2);
      return;
    }
    for (std::int64_t row = y * block_height; row < std::min((y + 1) * block_height, height_); ++row)
      rows_.push_back(row * width_ + x * block_width);
  }

  std::int64_t height_, width_;
  std::int64_t across_, left_over_;  // whole blocks beside each other, and columns that are in none
  std::int64_t strip_;               // the first place of these columns
  std::vector<std::int64_t> rows_;   // the first pixel of each row of each block, in the order of the order
};

}  // namespace densefield
