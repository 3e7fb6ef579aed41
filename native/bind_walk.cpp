#include <limits>
#include <memory>
#include <stdexcept>

#include "bindings.hpp"
#include "walk.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Order = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::unique_ptr<Walk> make_walk(std::int64_t height, std::int64_t width) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (height < 0 || width < 0 || (height > 0 && width > most / height))
    throw std::invalid_argument("height and width must be no less than 0, with fewer than 2^31 pixels");
  return std::make_unique<Walk>(height, width);
}

void fill_order(const Walk& walk, const Order& out) {
  if (static_cast<std::int64_t>(out.shape(0)) != walk.points()) throw std::invalid_argument("out must be (points,)");
  std::int64_t* to = out.data();
  walk.along_walk(0, walk.points(), [&](const Run& run) {
    for (int i = 0; i < run.count; ++i) to[run.place + i] = run.pixel + i;
  });
}

}  // namespace

void bind_walk(nb::module_& module) {
  nb::class_<Walk>(module, "Walk")
      .def(nb::new_(&make_walk), nb::arg("height"), nb::arg("width"))
      .def_prop_ro("points", &Walk::points)
      .def("fill_order", &fill_order, nb::arg("out"));
}

}  // namespace densefield
