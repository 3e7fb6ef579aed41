// Features of an image's pixels: x and y over their widths, then uint8 channels over theirs. A lattice computes them
// into its own memory, which saves writing and copying an array.
#pragma once

#include <cstdint>
#include <vector>

#include "image/pixel_order.hpp"

namespace densefield {

class PixelFeatures {
 public:
  // `pixels` (points, channel_widths.size()) is contiguous and must outlive this, as must `order`, which may be null.
  PixelFeatures(std::int64_t points, std::int64_t width, const std::vector<float>& position_widths,
                const std::uint8_t* pixels, const std::vector<float>& channel_widths, const PixelOrder* order)
      : points_(points), width_(width), y_width_(position_widths[1]), pixels_(pixels), order_(order) {
    for (std::int64_t x = 0; x < width; ++x) columns_.push_back(static_cast<float>(x) / position_widths[0]);
    for (const float each : channel_widths)
      for (int level = 0; level < 256; ++level) levels_.push_back(static_cast<float>(level) / each);
  }

  std::int64_t points() const { return points_; }
  int dimension() const { return 2 + channels(); }

  // Features (count, dimension) of points first, first + 1, …
  void copy(std::int64_t first, std::int64_t count, float* to) const {
    if (order_)
      order_->for_runs(first, first + count, [&](const Run& run) { to = copy_row(run.pixel, run.count, to); });
    else
      for (std::int64_t pixel = first, last = first + count; pixel < last;) {
        const std::int64_t here = std::min(width_ - pixel % width_, last - pixel);
        to = copy_row(pixel, here, to);
        pixel += here;
      }
  }

 private:
  int channels() const { return static_cast<int>(levels_.size() / 256); }

  float* copy_row(std::int64_t pixel, std::int64_t count, float* to) const {
    return channels() == 3 ? copy_channels<3>(pixel, count, to) : copy_channels<0>(pixel, count, to);
  }

  // C is the number of channels if known at compile time, else 0.
  template <int C>
  float* copy_channels(std::int64_t pixel, std::int64_t count, float* to) const {
    const int channels = C ? C : this->channels();
    const float y = static_cast<float>(pixel / width_) / y_width_;
    const float* x = columns_.data() + pixel % width_;
    const float* levels = levels_.data();
    const std::uint8_t* from = pixels_ + pixel * channels;
    for (std::int64_t i = 0; i < count; ++i, to += 2 + channels, from += channels) {
      to[0] = x[i];
      to[1] = y;
      for (int c = 0; c < channels; ++c) to[2 + c] = levels[256 * c + from[c]];
    }
    return to;
  }

  std::int64_t points_, width_;
  float y_width_;
  const std::uint8_t* pixels_;
  const PixelOrder* order_;
  std::vector<float> columns_;  // x over its width
  std::vector<float> levels_;   // (channels, 256): value over its width
};

}  // namespace densefield
