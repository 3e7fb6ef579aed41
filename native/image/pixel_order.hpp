// The order in which the pixels of an image or a volume are processed: blocks along a Z-order curve. Consecutive pixels
// are close in all directions, so they share more vertices of a lattice than rows of pixels do.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "simd/tile_kernels.hpp"

namespace densefield {

// Pixels that are consecutive both in the image and in the order, within one tile of the order.
struct Run {
  std::int64_t pixel;     // row-major index in the image
  std::int64_t position;  // position in the order
  int count;
};

class PixelOrder {
 public:
  PixelOrder(std::int64_t depth, std::int64_t height, std::int64_t width)
      : depth_(depth),
        height_(height),
        width_(width),
        block_height_(depth > 1 ? 16 : 32),
        block_depth_(depth > 1 ? 8 : 1),
        across_(width / block_width),
        left_over_(width % block_width) {
    // Whole blocks first, each of whose rows fills a tile; then the remaining columns, row by row.
    const std::int64_t down = (height + block_height_ - 1) / block_height_;
    const std::int64_t most = std::max({across_, down, (depth + block_depth_ - 1) / block_depth_});
    visit(0, 0, 0, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most))));
    strip_ = static_cast<std::int64_t>(rows_.size()) * block_width;
  }

  std::int64_t num_pixels() const { return depth_ * height_ * width_; }
  std::int64_t width() const { return width_; }

  std::int64_t pixel(std::int64_t position) const { return run(position, num_pixels()).pixel; }

  // Calls task(run) for positions first … last-1; `first` is the start of a tile.
  template <class Task>
  void for_runs(std::int64_t first, std::int64_t last, const Task& task) const {
    for (std::int64_t position = first; position < last;) {
      const Run here = run(position, last);
      task(here);
      position += here.count;
    }
  }

 private:
  static constexpr std::int64_t block_width = kTile;

  // The run from a position to the end of the row, the tile or the range.
  Run run(std::int64_t position, std::int64_t last) const {
    if (position < strip_) {
      const std::int64_t beside = position % block_width;
      const auto count = static_cast<int>(std::min(block_width - beside, last - position));
      return {rows_[position / block_width] + beside, position, count};
    }
    const std::int64_t y = (position - strip_) / left_over_, beside = (position - strip_) % left_over_;
    const std::int64_t most = std::min({left_over_ - beside, kTile - position % kTile, last - position});
    return {y * width_ + across_ * block_width + beside, position, static_cast<int>(most)};
  }

  // A cube of size³ blocks: its eight parts, x first.
  void visit(std::int64_t x, std::int64_t y, std::int64_t z, std::int64_t size) {
    const std::int64_t top = y * block_height_, front = z * block_depth_;
    if (x >= across_ || top >= height_ || front >= depth_) return;
    if (size > 1) {
      const std::int64_t half = size / 2;
      for (int part = 0; part < 8; ++part)
        visit(x + part % 2 * half, y + part / 2 % 2 * half, z + part / 4 * half, half);
      return;
    }
    for (std::int64_t slice = front; slice < std::min(front + block_depth_, depth_); ++slice)
      for (std::int64_t row = top; row < std::min(top + block_height_, height_); ++row)
        rows_.push_back((slice * height_ + row) * width_ + x * block_width);
  }

  std::int64_t depth_, height_, width_;
  std::int64_t block_height_, block_depth_;
  std::int64_t across_, left_over_;  // whole blocks in a row of blocks, and columns right of them
  std::int64_t strip_;               // first position of these columns
  std::vector<std::int64_t> rows_;   // first pixel of each row of each block, in order
};

}  // namespace densefield
