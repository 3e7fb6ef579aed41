// Bindings of the mixtures of colours.
#include "image/colour_mixture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "python/bindings.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Labels = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Points = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using GaussiansOut = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;  // (labels, components, 10)
using ScoresOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;     // (labels, points)

constexpr std::int64_t kNumbers = sizeof(Gaussian) / sizeof(float);

class ColourMixtures {
 public:
  ColourMixtures(const Image& image, const Labels& labels, std::int64_t num_labels, const std::vector<float>& low,
                 const std::vector<float>& scale, int levels, std::int64_t components, int iterations,
                 double least_variance, int threads)
      : bins_{low, scale, levels}, num_labels_(num_labels), components_(components) {
    check_threads(threads);
    require(num_labels >= 1 && num_labels <= 1 << 16, "num_labels must be 1 to 65536");
    require(levels >= 1 && levels <= 256, "levels must be 1 to 256");
    require(components >= 1 && components <= 64, "components must be 1 to 64");
    require(iterations >= 0 && iterations <= 1000, "iterations must be 0 to 1000");
    require(least_variance > 0 && least_variance < 1e30, "least_variance must be above 0");
    require(low.size() >= 1 && low.size() <= 3 && scale.size() == low.size(),
            "one bound and one scale per channel, for at most three channels");
    check_channels(image);
    require(labels.size() == image.shape(0), "image and labels must have the same pixels");
    for (std::size_t i = 0; i < labels.size(); ++i)
      require(labels.data()[i] >= -1 && labels.data()[i] < num_labels, "labels must be -1 to num_labels - 1");
    const ReleasedGil released;
    std::vector<std::int64_t> sums(static_cast<std::size_t>(num_labels * bins_.num_bins() * (1 + bins_.channels())));
    mixtures_.resize(static_cast<std::size_t>(num_labels * components));
    with_image(image, [&](const auto& view) {
      colour_sums(view, labels.data(), static_cast<std::int64_t>(labels.size()), bins_, num_labels, sums.data(),
                  threads);
    });
    fit_mixtures(sums.data(), num_labels, bins_, {components, iterations, least_variance}, mixtures_.data(), threads);
  }

  void gaussians(const GaussiansOut& out) const {
    require(out.size() == mixtures_.size() * kNumbers, "out must be (labels, components, 10)");
    const auto* const from = reinterpret_cast<const float*>(mixtures_.data());
    std::copy(from, from + out.size(), out.data());
  }

  void add_log_likelihoods(const Image& image, const std::optional<Points>& points, float least, float weight,
                           const ScoresOut& scores, int threads) const {
    check_threads(threads);
    check_channels(image);
    require(std::isfinite(least) && std::isfinite(weight), "least and weight must be finite");
    const std::size_t count = points ? points->size() : image.shape(0);
    require(scores.shape(0) == static_cast<std::size_t>(num_labels_) && scores.shape(1) == count,
            "scores must be (labels, points)");
    for (std::size_t i = 0; points && i < count; ++i)
      require(points->data()[i] >= 0 && static_cast<std::size_t>(points->data()[i]) < image.shape(0),
              "points must be pixels of the image");
    const ReleasedGil released;
    with_image(image, [&](const auto& view) {
      densefield::add_log_likelihoods(view, bins_, mixtures_.data(), num_labels_, components_, least, weight,
                                      points ? points->data() : nullptr, static_cast<std::int64_t>(count),
                                      scores.data(), threads);
    });
  }

 private:
  void check_channels(const Image& image) const {
    require(image.shape(1) == bins_.low.size(), "the image must have one channel per bound");
  }

  ColourBins bins_;
  std::int64_t num_labels_, components_;
  std::vector<Gaussian> mixtures_;
};

}  // namespace

void bind_colour_mixture(nb::module_& module) {
  nb::class_<ColourMixtures>(module, "ColourMixtures")
      .def(nb::init<const Image&, const Labels&, std::int64_t, const std::vector<float>&, const std::vector<float>&,
                    int, std::int64_t, int, double, int>(),
           array_arg("image"), array_arg("labels"), nb::arg("num_labels"), nb::arg("low"), nb::arg("scale"),
           nb::arg("levels"), nb::arg("components"), nb::arg("iterations"), nb::arg("least_variance"),
           nb::arg("threads"))
      .def("gaussians", &ColourMixtures::gaussians, array_arg("out"))
      .def("add_log_likelihoods", &ColourMixtures::add_log_likelihoods, array_arg("image"), array_arg("points").none(),
           nb::arg("least"), nb::arg("weight"), array_arg("scores"), nb::arg("threads"));
}

}  // namespace densefield
