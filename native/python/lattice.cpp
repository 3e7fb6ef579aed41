#include <memory>
#include <optional>
#include <stdexcept>

#include "lattice/filter.hpp"
#include "python/bindings.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Values = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;  // (batch, points, channels)
using Out = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Points = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // (points, dimension)
using Vector = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Moments = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Slope = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Shape shape_of(const LatticeFilter& filter, const Values& values) {
  require(static_cast<std::int64_t>(values.shape(1)) == filter.lattice().points,
          "values are for another number of points");
  return {static_cast<std::int64_t>(values.shape(0)), static_cast<std::int64_t>(values.shape(2))};
}

template <class A, class B>
void check_same_shape(const A& a, const B& b) {
  for (int axis = 0; axis < 3; ++axis) require(a.shape(axis) == b.shape(axis), "arrays differ in shape");
}

void check_points(const LatticeFilter& filter, const Numbers& numbers) {
  require(static_cast<std::int64_t>(numbers.shape(0)) == filter.lattice().points,
          "values are for another number of points");
}

Features features_of(const Points& points) {
  const bool is_double = points.dtype() == nb::dtype<double>();
  require(is_double || points.dtype() == nb::dtype<float>(), "points must be floats");
  return {points.data(), is_double, static_cast<std::int64_t>(points.shape(0))};
}

std::unique_ptr<LatticeFilter> make_filter(const Points& points, const std::vector<double>& scale,
                                           const std::vector<int>& axes, const std::vector<double>& taps,
                                           bool single_precision, int halo, int threads, const std::string& simd) {
  const Features features = features_of(points);
  check_threads(threads);
  const auto dimension = static_cast<int>(std::min<std::size_t>(points.shape(1), max_dimension + 1));
  require(dimension >= 1 && dimension <= max_dimension, "dimension must be 1 to 16");
  require(!features.is_double || !single_precision, "single precision takes float32 points");
  require(static_cast<int>(scale.size()) == dimension, "one scale per dimension");
  require(axes.size() == taps.size(), "one tap per axis");
  require(halo >= 0 && halo <= 8, "halo must be 0 to 8");
  Embedding embedding{dimension, single_precision, {}};
  std::copy(scale.begin(), scale.end(), embedding.scale);
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    require(axes[i] >= 0 && axes[i] <= dimension, "axes must be 0 to dimension");
    passes.push_back({axes[i], static_cast<float>(taps[i])});
  }
  const LatticeKernels& chosen = kernels(simd).lattice;
  const ReleasedGil released;
  return std::make_unique<LatticeFilter>(build_lattice(embedding, features, halo, chosen, threads), std::move(passes),
                                         chosen);
}

void apply(const LatticeFilter& filter, const Values& values, const Out& out, bool adjoint, double magnitude,
           int threads) {
  check_threads(threads);
  const Shape shape = shape_of(filter, values);
  check_same_shape(values, out);
  const ReleasedGil released;
  filter.apply(values.data(), out.data(), shape, adjoint, static_cast<float>(magnitude), threads);
}

void gradients(const LatticeFilter& filter, const Values& cotangent, const Values& values, const Out& to_values,
               const Slope& to_features, double magnitude, int threads) {
  check_threads(threads);
  const Shape shape = shape_of(filter, values);
  check_same_shape(values, cotangent);
  check_same_shape(values, to_values);
  require(static_cast<std::int64_t>(to_features.shape(0)) == filter.lattice().points &&
              static_cast<int>(to_features.shape(1)) == filter.lattice().embedding.dimension,
          "to_features must be (points, dimension)");
  const ReleasedGil released;
  filter.gradients(cotangent.data(), values.data(), shape, to_values.data(), to_features.data(),
                   static_cast<float>(magnitude), threads);
}

void point_moments(const LatticeFilter& filter, const Numbers& row_sums, std::optional<Numbers> extra,
                   std::optional<Numbers> present, const Moments& moments, double factor, double magnitude,
                   int threads) {
  check_threads(threads);
  check_points(filter, row_sums);
  if (extra) check_points(filter, *extra);
  if (present) check_points(filter, *present);
  const auto d = static_cast<std::size_t>(filter.lattice().embedding.dimension);
  require(moments.shape(0) == d && moments.shape(1) == d, "moments must be (d, d)");
  const ReleasedGil released;
  filter.point_moments(row_sums.data(), extra ? extra->data() : nullptr, present ? present->data() : nullptr, factor,
                       static_cast<float>(magnitude), moments.data(), threads);
}

double calibrated_magnitude(const LatticeFilter& filter, int threads) {
  check_threads(threads);
  const ReleasedGil released;
  return filter.calibrated_magnitude(threads);
}

// The lattice's features as a view of its memory.
nb::ndarray<nb::numpy, nb::ro> features(const LatticeFilter& filter) {
  const Lattice& lattice = filter.lattice();
  const std::size_t shape[2] = {static_cast<std::size_t>(lattice.points),
                                static_cast<std::size_t>(lattice.embedding.dimension)};
  return nb::ndarray<nb::numpy, nb::ro>(lattice.features.data, 2, shape, nb::handle(), nullptr,
                                        lattice.features.is_double ? nb::dtype<double>() : nb::dtype<float>());
}

void diagonal(const LatticeFilter& filter, const Vector& out, double magnitude, int threads) {
  check_threads(threads);
  require(static_cast<std::int64_t>(out.shape(0)) == filter.lattice().points, "out is for another number of points");
  const ReleasedGil released;
  filter.diagonal(out.data(), static_cast<float>(magnitude), threads);
}

std::vector<double> time_phases(const LatticeFilter& filter, const Values& values, const Out& out, int threads) {
  check_threads(threads);
  const Shape shape = shape_of(filter, values);
  check_same_shape(values, out);
  const ReleasedGil released;
  LatticeFilter::Times times;
  filter.apply(values.data(), out.data(), shape, false, 1.0f, threads, &times);
  return {times.splat, times.blur, times.slice};
}

}  // namespace

void bind_lattice(nb::module_& module) {
  nb::class_<LatticeFilter>(module, "Lattice")
      .def(nb::new_(&make_filter), array_arg("features"), nb::arg("scale"), nb::arg("axes"), nb::arg("taps"),
           nb::arg("single_precision"), nb::arg("halo"), nb::arg("threads"), nb::arg("simd"))
      .def_prop_ro("num_vertices", [](const LatticeFilter& filter) { return filter.lattice().vertices; })
      .def_prop_ro("features", &features, nb::rv_policy::reference_internal)
      .def("apply", &apply, array_arg("values"), array_arg("out"), nb::arg("adjoint"), nb::arg("magnitude"),
           nb::arg("threads"))
      .def("gradients", &gradients, array_arg("cotangent"), array_arg("values"), array_arg("to_values"),
           array_arg("to_features"), nb::arg("magnitude"), nb::arg("threads"))
      .def("point_moments", &point_moments, array_arg("row_sums"), array_arg("extra").none(),
           array_arg("present").none(), array_arg("moments"), nb::arg("factor"), nb::arg("magnitude"),
           nb::arg("threads"))
      .def("calibrated_magnitude", &calibrated_magnitude, nb::arg("threads"))
      .def("diagonal", &diagonal, array_arg("out"), nb::arg("magnitude"), nb::arg("threads"))
      .def("time_phases", &time_phases, array_arg("values"), array_arg("out"), nb::arg("threads"));
  module.def(
      "calibration_samples",
      [](const Points& points, int threads) {
        check_threads(threads);
        return calibration_samples(features_of(points), static_cast<int>(points.shape(1)), threads);
      },
      array_arg("features"), nb::arg("threads"));
}

}  // namespace densefield
