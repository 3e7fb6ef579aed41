// Bindings of mean field. All sizes are checked here, so that kernels never access memory outside their arrays.
#include <optional>
#include <stdexcept>

#include "mean_field/mean_field.hpp"
#include "python/bindings.hpp"
#include "simd/dispatch.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using VectorOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Planes = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // (classes, points)
using PlanesOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

// One coupling with the Python objects it refers to.
struct BoundCoupling {
  nb::object lattice;  // keeps the filter alive
  Vector before, after;
  std::optional<Vector> own;
  Weights mu;
  Coupling coupling;

  BoundCoupling(nb::object given, double magnitude, Vector before_, Vector after_, std::optional<Vector> own_,
                Weights mu_)
      : lattice(given), before(before_), after(after_), own(own_), mu(mu_) {
    const auto* filter = nb::cast<const LatticeFilter*>(given);
    const auto points = static_cast<std::size_t>(filter->lattice().points);
    require(before.shape(0) == points && after.shape(0) == points, "before and after must have one number per point");
    require(!own || own->shape(0) == points, "own must have one number per point");
    require(mu.ndim() <= 2 && (mu.ndim() < 2 || mu.shape(0) == mu.shape(1)), "mu must be (), (L,) or (L, L)");
    coupling = {filter,    static_cast<float>(magnitude), before.data(), after.data(), own ? own->data() : nullptr,
                mu.data(), static_cast<int>(mu.ndim())};
  }
};

std::vector<Coupling> couplings_of(const std::vector<const BoundCoupling*>& bound, int num_classes) {
  std::vector<Coupling> couplings;
  for (const BoundCoupling* each : bound) {
    require(each->mu.ndim() == 0 || each->mu.shape(0) == static_cast<std::size_t>(num_classes),
            "mu is for another number of classes");
    couplings.push_back(each->coupling);
  }
  return couplings;
}

struct Sizes {
  std::int64_t points;
  int num_classes;
};

Sizes sizes_of(const Planes& scores, int iterations, int threads) {
  require(scores.shape(0) >= 1 && scores.shape(0) <= 1 << 20, "num_classes must be 1 to 2^20");
  require(iterations >= 0 && iterations <= 1 << 20, "iterations must be 0 to 2^20");
  check_threads(threads);
  return {static_cast<std::int64_t>(scores.shape(1)), static_cast<int>(scores.shape(0))};
}

template <class Array>
void require_like(const Array& array, const Planes& scores) {
  require(array.shape(0) == scores.shape(0) && array.shape(1) == scores.shape(1), "arrays differ in shape");
}

template <class Array>
void require_state(const Array& states, int iterations, const Tiling& tiling) {
  require(static_cast<std::int64_t>(states.shape(0)) == iterations &&
              static_cast<std::int64_t>(states.shape(1)) == tiling.state_floats(),
          "states must be (iterations, state_floats)");
}

int run_mean_field(const std::vector<const BoundCoupling*>& bound, const Planes& scores, std::optional<Planes> start,
                   int iterations, bool convergent, std::optional<PlanesOut> marginals,
                   std::optional<PlanesOut> log_marginals, std::optional<PlanesOut> states,
                   std::optional<VectorOut> residuals, double tolerance, const PixelOrder* order, int threads,
                   const std::string& simd) {
  const Sizes sizes = sizes_of(scores, iterations, threads);
  const std::vector<Coupling> couplings = couplings_of(bound, sizes.num_classes);
  const Tiling tiling(couplings, sizes.points, sizes.num_classes);
  if (start) require_like(*start, scores);
  if (marginals) require_like(*marginals, scores);
  if (log_marginals) require_like(*log_marginals, scores);
  if (states) require_state(*states, iterations, tiling);
  require(!residuals || static_cast<int>(residuals->shape(0)) == iterations, "residuals must be (iterations,)");
  require(!order || order->num_pixels() == sizes.points, "the pixel order has another number of points");
  const Inference task{.scores = scores.data(),
                       .start = start ? start->data() : nullptr,
                       .iterations = iterations,
                       .convergent = convergent,
                       .tolerance = static_cast<float>(tolerance),
                       .marginals = marginals ? marginals->data() : nullptr,
                       .log_marginals = log_marginals ? log_marginals->data() : nullptr,
                       .states = states ? states->data() : nullptr,
                       .residuals = residuals ? residuals->data() : nullptr,
                       .order = order};
  const TileKernels& chosen = kernels(simd).tile;
  const ReleasedGil released;
  return mean_field(couplings, tiling, task, chosen, threads);
}

// The wanted gradients of one coupling; arrays are added to.
struct BoundGradients {
  std::optional<Doubles> mu;
  std::optional<Doubles> moments;
  std::optional<VectorOut> sent, received, own;
  std::optional<Planes> features;
  std::optional<PlanesOut> slopes;
};

CouplingGradients checked(const BoundGradients& given, const Coupling& coupling, int num_classes) {
  const Lattice& lattice = coupling.filter->lattice();
  const auto points = static_cast<std::size_t>(lattice.points);
  const auto d = static_cast<std::size_t>(lattice.embedding.dimension);
  if (given.mu) {
    std::size_t count = 1;
    for (int i = 0; i < coupling.rank; ++i) count *= num_classes;
    require(given.mu->size() == count, "the gradient of mu must be like mu");
  }
  CouplingGradients gradients{.mu = given.mu ? given.mu->data() : nullptr};
  if (!given.moments && !given.slopes) return gradients;
  require(given.sent && given.received, "moments and slopes need sent and received");
  require(!given.moments || given.moments->size() == d * d, "moments must be (d, d)");
  require(given.sent->shape(0) == points && given.received->shape(0) == points, "sent and received must be (points,)");
  require(!coupling.own || (given.own && given.own->shape(0) == points), "own must be (points,)");
  gradients.moments = given.moments ? given.moments->data() : nullptr;
  gradients.sent = given.sent->data();
  gradients.received = given.received->data();
  gradients.own = given.own ? given.own->data() : nullptr;
  if (given.slopes) {
    require(given.features && given.features->shape(0) == points && given.features->shape(1) == d,
            "features must be (points, d)");
    gradients.features = given.features->data();
    require(given.slopes->shape(0) == points && given.slopes->shape(1) == d, "slopes must be (points, d)");
    gradients.slopes = given.slopes->data();
  }
  return gradients;
}

void run_backward(const std::vector<const BoundCoupling*>& bound, const Planes& cotangent, const Planes& log_marginals,
                  const Planes& states, int iterations, bool convergent, const PlanesOut& to_scores,
                  const std::vector<const BoundGradients*>& wanted, const PixelOrder* order, int threads,
                  const std::string& simd) {
  const Sizes sizes = sizes_of(cotangent, iterations, threads);
  const std::vector<Coupling> couplings = couplings_of(bound, sizes.num_classes);
  const Tiling tiling(couplings, sizes.points, sizes.num_classes);
  require_like(log_marginals, cotangent);
  require_like(to_scores, cotangent);
  require_state(states, iterations, tiling);
  require(wanted.size() == couplings.size(), "one set of gradients per coupling");
  require(!order || order->num_pixels() == sizes.points, "the pixel order has another number of points");
  BackwardTask task{.cotangent = cotangent.data(),
                    .log_marginals = log_marginals.data(),
                    .states = states.data(),
                    .iterations = iterations,
                    .convergent = convergent,
                    .scores = to_scores.data(),
                    .order = order};
  for (std::size_t m = 0; m < couplings.size(); ++m)
    task.gradients.push_back(checked(*wanted[m], couplings[m], sizes.num_classes));
  const TileKernels& chosen = kernels(simd).tile;
  const ReleasedGil released;
  mean_field_backward(couplings, tiling, task, chosen, threads);
}

}  // namespace

void bind_mean_field(nb::module_& module) {
  nb::class_<BoundCoupling>(module, "Coupling")
      .def(nb::init<nb::object, double, Vector, Vector, std::optional<Vector>, Weights>(), nb::arg("lattice"),
           nb::arg("magnitude"), array_arg("before"), array_arg("after"), array_arg("own").none(), array_arg("mu"));
  nb::class_<BoundGradients>(module, "Gradients")
      .def(nb::init<std::optional<Doubles>, std::optional<Doubles>, std::optional<VectorOut>, std::optional<VectorOut>,
                    std::optional<VectorOut>, std::optional<Planes>, std::optional<PlanesOut>>(),
           array_arg("mu").none(), array_arg("moments").none(), array_arg("sent").none(), array_arg("received").none(),
           array_arg("own").none(), array_arg("features").none(), array_arg("slopes").none());
  module.def(
      "state_floats",
      [](std::int64_t points, int num_classes) { return (points + kTile - 1) / kTile * kTile * num_classes; },
      nb::arg("points"), nb::arg("num_classes"));
  module.def("mean_field", &run_mean_field, nb::arg("couplings"), array_arg("scores"), array_arg("start").none(),
             nb::arg("iterations"), nb::arg("convergent"), array_arg("marginals").none(),
             array_arg("log_marginals").none(), array_arg("states").none(), array_arg("residuals").none(),
             nb::arg("tolerance"), nb::arg("order").none(), nb::arg("threads"), nb::arg("simd"));
  module.def("mean_field_backward", &run_backward, nb::arg("couplings"), array_arg("cotangent"),
             array_arg("log_marginals"), array_arg("states"), nb::arg("iterations"), nb::arg("convergent"),
             array_arg("scores"), nb::arg("gradients"), nb::arg("order").none(), nb::arg("threads"), nb::arg("simd"));
}

}  // namespace densefield
