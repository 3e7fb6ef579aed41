// Python's view of the Gaussian on a pixel grid. Sizes are checked here as well, so that no caller can make
// the kernels leave their arrays; messages for users are raised in Python.
#include "bindings.hpp"

#include "grid_filter.hpp"

namespace densefield {

namespace nb = nanobind;

namespace {

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::shape<-1, kGridSupport>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

constexpr int kMostThreads = 1024;

GridAxis bind_axis(std::int64_t pixels, Floats taps, Floats derivative, Indices cells, Weights weights) {
  if (taps.shape(0) != derivative.shape(0))
    throw std::invalid_argument("taps and their derivative must have the same length");
  return make_grid_axis(pixels, taps.data(), derivative.data(), taps.shape(0), cells.data(), cells.shape(0),
                        weights.data(), weights.shape(0) * kGridSupport);
}

template <class First, class Second>
void check_sizes(const GridFilter& filter, const First& values, const Second& other, int threads) {
  for (int axis = 0; axis < 3; ++axis)
    if (values.shape(axis) != other.shape(axis))
      throw std::invalid_argument("the two arrays must have the same shape (batch, points, channels)");
  if (static_cast<std::int64_t>(values.shape(1)) != filter.points())
    throw std::invalid_argument("the arrays have " + std::to_string(values.shape(1)) + " points, expected " +
                                std::to_string(filter.points()));
  if (threads < 1 || threads > kMostThreads)
    throw std::invalid_argument("threads must be 1 to " + std::to_string(kMostThreads));
}

}  // namespace

void bind_grid(nb::module_& module) {
  module.attr("GRID_SUPPORT") = kGridSupport;
  nb::class_<GridAxis>(module, "GridAxis", "Taps and, for a wide kernel, coarser grid of one axis.")
      .def("__init__",
           [](GridAxis* self, std::int64_t pixels, Floats taps, Floats derivative, Indices cells,
              Weights weights) { new (self) GridAxis(bind_axis(pixels, taps, derivative, cells, weights)); },
           nb::arg("pixels"), array_arg("taps"), array_arg("derivative_taps"), array_arg("cells"),
           array_arg("weights"));
  nb::class_<GridFilter>(module, "GridFilter", "The Gaussian on a pixel grid, on several threads.")
      .def(nb::init<std::vector<GridAxis>, const std::string&>(), nb::arg("axes"), nb::arg("simd"))
      .def("apply",
           [](GridFilter& self, Values values, Output out, int threads) {
             check_sizes(self, values, out, threads);
             const Released released;
             self.apply(values.data(), out.data(), values.shape(0), values.shape(2), threads);
           },
           array_arg("values"), array_arg("out"), nb::arg("threads"))
      .def("sigma_gradient",
           [](GridFilter& self, Values cotangent, Values values, int threads) {
             check_sizes(self, values, cotangent, threads);
             const Released released;
             return self.sigma_gradient(cotangent.data(), values.data(), values.shape(0), values.shape(2),
                                        threads);
           },
           array_arg("cotangent"), array_arg("values"), nb::arg("threads"));
}

}  // namespace densefield
