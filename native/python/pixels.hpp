// Python's view of pixels and the order in which they are gone through.
#pragma once

#include "python/bindings.hpp"
#include "image/pixel_features.hpp"

namespace densefield {

using Pixels = nanobind::ndarray<const std::uint8_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

// Features that keep alive what they are made from.
struct BoundPixels {
  Pixels pixels;
  nanobind::object order;
  PixelFeatures features;
};

}  // namespace densefield
