#include <limits>
#include <memory>
#include <stdexcept>

#include "python/pixels.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Order = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::unique_ptr<PixelOrder> make_order(std::int64_t height, std::int64_t width) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  require(height >= 0 && width >= 0 && (height == 0 || width <= most / height),
          "height and width must be no less than 0, with fewer than 2^31 pixels");
  return std::make_unique<PixelOrder>(height, width);
}

void fill_indices(const PixelOrder& order, const Order& out) {
  require(static_cast<std::int64_t>(out.shape(0)) == order.num_pixels(), "out must be (points,)");
  std::int64_t* to = out.data();
  order.for_runs(0, order.num_pixels(), [&](const Run& run) {
    for (int i = 0; i < run.count; ++i) to[run.position + i] = run.pixel + i;
  });
}

using Features = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::unique_ptr<BoundPixels> make_pixels(const Pixels& pixels, std::int64_t width,
                                         const std::vector<float>& position_widths,
                                         const std::vector<float>& channel_widths, nb::object order) {
  const auto points = static_cast<std::int64_t>(pixels.shape(0));
  const PixelOrder* given = order.is_none() ? nullptr : nb::cast<const PixelOrder*>(order);
  require(points == 0 || (width >= 1 && width <= points), "width must be 1 to the number of points");
  require(!given || (given->num_pixels() == points && (points == 0 || given->width() == width)),
          "the pixel order is of another image");
  require(position_widths.size() == 2, "one width for x, one for y");
  require(channel_widths.size() == pixels.shape(1), "one width per channel");
  return std::make_unique<BoundPixels>(
      BoundPixels{pixels, order, PixelFeatures(points, width, position_widths, pixels.data(), channel_widths, given)});
}

void fill_features(const BoundPixels& pixels, const Features& out) {
  const PixelFeatures& features = pixels.features;
  require(static_cast<std::int64_t>(out.shape(0)) == features.points() &&
              static_cast<int>(out.shape(1)) == features.dimension(),
          "out must be (points, 2 + channels)");
  features.copy(0, features.points(), out.data());
}

}  // namespace

void bind_pixels(nb::module_& module) {
  nb::class_<PixelOrder>(module, "PixelOrder")
      .def(nb::new_(&make_order), nb::arg("height"), nb::arg("width"))
      .def_prop_ro("num_pixels", &PixelOrder::num_pixels)
      .def("fill_indices", &fill_indices, array_arg("out"));
  nb::class_<BoundPixels>(module, "PixelFeatures")
      .def(nb::new_(&make_pixels), array_arg("pixels"), nb::arg("width"), nb::arg("position_widths"),
           nb::arg("channel_widths"), nb::arg("order").none())
      .def("fill", &fill_features, array_arg("out"));
}

}  // namespace densefield
