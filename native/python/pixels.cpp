#include <limits>
#include <memory>
#include <stdexcept>

#include "image/pixel_order.hpp"
#include "python/bindings.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Order = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::unique_ptr<PixelOrder> make_order(std::int64_t height, std::int64_t width, std::int64_t depth) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const auto fits = [](std::int64_t a, std::int64_t b) { return a == 0 || b <= most / a; };
  require(height >= 0 && width >= 0 && depth >= 0 && fits(height, width) && fits(height * width, depth),
          "height, width and depth must be no less than 0, with fewer than 2^31 pixels");
  return std::make_unique<PixelOrder>(depth, height, width);
}

void fill_indices(const PixelOrder& order, const Order& out) {
  require(static_cast<std::int64_t>(out.shape(0)) == order.num_pixels(), "out must be (points,)");
  std::int64_t* to = out.data();
  order.for_runs(0, order.num_pixels(), [&](const Run& run) {
    for (int i = 0; i < run.count; ++i) to[run.position + i] = run.pixel + i;
  });
}

}  // namespace

void bind_pixels(nb::module_& module) {
  nb::class_<PixelOrder>(module, "PixelOrder")
      .def(nb::new_(&make_order), nb::arg("height"), nb::arg("width"), nb::arg("depth") = 1)
      .def_prop_ro("num_pixels", &PixelOrder::num_pixels)
      .def("fill_indices", &fill_indices, array_arg("out"));
}

}  // namespace densefield
