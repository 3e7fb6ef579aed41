// Bindings of pixel features and pixel orders.
#pragma once

#include "image/pixel_features.hpp"
#include "python/bindings.hpp"

namespace densefield {

using Pixels = nanobind::ndarray<const std::uint8_t, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;

// Features with the Python objects they refer to.
struct BoundPixels {
  Pixels pixels;
  nanobind::object order;
  PixelFeatures features;
};

}  // namespace densefield
