// Bindings of the edges of masks: distances, edge profiles and scores.
#include "image/mask_edges.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "base/buffer.hpp"
#include "base/parallel.hpp"
#include "image/pixel_order.hpp"
#include "python/bindings.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Labels = nb::ndarray<const std::int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;  // (z, y, x)
using Use = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using TableOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using CountsOut = nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using PairTable = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Profile = nb::ndarray<std::int64_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;  // (pairs, directions, 2 * bins)
using Points = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using PointsOut = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NewPoints = nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>>;

class MaskEdges {
 public:
  MaskEdges(const Labels& labels, const std::vector<float>& spacing, std::int64_t num_labels, int threads)
      : num_labels_(num_labels) {
    check_threads(threads);
    require(spacing.size() == 3 &&
                std::all_of(spacing.begin(), spacing.end(), [](float each) { return each > 0 && each < 1e30f; }),
            "spacing must be three numbers above 0");
    const std::size_t pixels = labels.size();
    require(pixels > 0 && pixels < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()),
            "a mask must have 1 to 2^31 pixels");
    require(num_labels >= 1 && num_labels <= 1 << 16, "num_labels must be 1 to 65536");
    for (int axis = 0; axis < 3; ++axis) {
      grid_.size[axis] = static_cast<std::int64_t>(labels.shape(axis));
      grid_.spacing[axis] = spacing[axis];
    }
    const std::int32_t* from = labels.data();
    std::vector<std::int64_t> area(num_labels);
    for (std::size_t i = 0; i < pixels; ++i) {
      require(from[i] >= 0 && from[i] < num_labels, "labels must be 0 to num_labels - 1");
      ++area[from[i]];
    }
    // The smaller of two labels is the inner one: its number does not matter.
    std::vector<std::int32_t> order(num_labels);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return area[a] > area[b]; });
    rank_.resize(num_labels);
    for (std::int32_t place = 0; place < static_cast<std::int32_t>(num_labels); ++place) rank_[order[place]] = place;
    labels_ = Buffer<std::int32_t>(pixels);
    squared_ = Buffer<float>(pixels);
    nearest_ = Buffer<std::int32_t>(pixels);
    std::copy(from, from + pixels, labels_.data());
    const ReleasedGil released;
    nearest_other_label(grid_, labels_.data(), squared_.data(), nearest_.data(), threads);
  }

  void distances(const FloatsOut& squared, const PointsOut& nearest) const {
    require(squared.size() == squared_.size() && nearest.size() == squared_.size(), "arrays must be (pixels,)");
    std::copy(squared_.data(), squared_.data() + squared_.size(), squared.data());
    std::copy(nearest_.data(), nearest_.data() + nearest_.size(), nearest.data());
  }

  // The length of the edge between each pair of labels: the number of pixels next to it, (labels, labels).
  void edge_lengths(const Use& use, const CountsOut& out) const {
    const auto labels = static_cast<std::size_t>(num_labels_);
    require(use.size() == squared_.size(), "use must be (pixels,)");
    require(out.shape(0) == labels && out.shape(1) == labels, "out must be (labels, labels)");
    std::fill(out.data(), out.data() + labels * labels, 0);
    const std::int64_t row = grid_.size[2], plane = grid_.size[1] * row;
    for (std::size_t i = 0; i < squared_.size(); ++i) {
      const std::int64_t step = std::abs(static_cast<std::int64_t>(i) - nearest_[i]);
      if (use.data()[i] == 2 && nearest_[i] >= 0 && (step == 1 || step == row || step == plane))
        ++out.data()[labels_[i] * num_labels_ + labels_[nearest_[i]]];
    }
  }

  void profile(const Image& image, const Use& use, const PairTable& pairs, float bin_width, const Profile& strengths,
               const Profile& counts, int threads) const {
    check_threads(threads);
    check_pixels(image, use);
    const ProfileShape shape{static_cast<std::int64_t>(strengths.shape(0)),
                             static_cast<std::int64_t>(strengths.shape(1)),
                             static_cast<std::int64_t>(strengths.shape(2)) / 2};
    for (int axis = 0; axis < 3; ++axis)
      require(counts.shape(axis) == strengths.shape(axis), "strengths and counts must have the same shape");
    require(shape.pairs >= 1 && shape.pairs <= 1024 && shape.bins >= 1 && shape.bins <= 1024 &&
                strengths.shape(2) % 2 == 0 && shape.directions >= 1 && shape.directions <= 1024,
            "strengths must be (pairs, directions, 2 * bins)");
    check_pairs(pairs, shape.pairs);
    require(bin_width > 0 && bin_width < 1e30f, "bin_width must be above 0");
    const ReleasedGil released;
    with_image(image, [&](const auto& view) {
      edge_profile(mask(pairs.data()), view, use.data(), bin_width, shape, strengths.data(), counts.data(), threads);
    });
  }

  // `displacements` are (pairs, 3): offset, and shift along x and y.
  void margins(const PairTable& pairs, const Table& displacements, const FloatsOut& out, int threads) const {
    check_threads(threads);
    require(out.size() == squared_.size(), "out must be (pixels,)");
    require(displacements.shape(1) == 3, "displacements must be (pairs, 3)");
    check_pairs(pairs, static_cast<std::int64_t>(displacements.shape(0)));
    std::vector<Displacement> moved(displacements.shape(0));
    for (std::size_t i = 0; i < moved.size(); ++i)
      moved[i] = {displacements(i, 0), displacements(i, 1), displacements(i, 2)};
    const ReleasedGil released;
    edge_margins(mask(pairs.data()), moved.data(), out.data(), threads);
  }

  // Pixels whose margin is below the limit, in pixel order if given; all pixels that are not ignored if it is infinite.
  NewPoints band(const Floats& margins, const Use& use, float limit, const PixelOrder* order) const {
    require(margins.size() == squared_.size() && use.size() == squared_.size(), "arrays must be (pixels,)");
    const auto pixels = static_cast<std::int64_t>(squared_.size());
    require(!order || order->num_pixels() == pixels, "the pixel order has another number of points");
    auto found = std::make_unique<std::vector<std::int32_t>>();
    const auto take = [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t pixel = first; pixel < first + count; ++pixel)
        if (use.data()[pixel] != 0 && std::abs(margins.data()[pixel]) <= limit)
          found->push_back(static_cast<std::int32_t>(pixel));
    };
    if (order)
      order->for_runs(0, pixels, [&](const Run& run) { take(run.pixel, run.count); });
    else
      take(0, pixels);
    const std::size_t count = found->size();
    std::int32_t* data = found->data();
    const nb::capsule owner(found.release(),
                            [](void* kept) noexcept { delete static_cast<std::vector<std::int32_t>*>(kept); });
    return NewPoints(data, {count}, owner);
  }

  void scores(const Use& use, const Floats& margins, float strength, float width, const Points& points,
              const TableOut& out, int threads) const {
    check_threads(threads);
    check_points(points);
    require(margins.size() == squared_.size() && use.size() == squared_.size(), "arrays must be (pixels,)");
    require(width > 0, "width must be above 0");
    require(out.shape(0) == static_cast<std::size_t>(num_labels_) && out.shape(1) == points.size(),
            "out must be (labels, points)");
    const ReleasedGil released;
    band_scores(mask(), use.data(), margins.data(), {strength, width}, points.data(),
                static_cast<std::int64_t>(points.size()), out.data(), threads);
  }

  // Marginals (labels, pixels): those of the points, and `certain` for the label on the pixel's side of the edge elsewhere.
  void assemble(const Floats& margins, const Points& points, const Table& marginals, float certain, const TableOut& out,
                int threads) const {
    check_threads(threads);
    check_points(points);
    require(margins.size() == squared_.size(), "margins must be (pixels,)");
    require(marginals.shape(0) == static_cast<std::size_t>(num_labels_) && marginals.shape(1) == points.size(),
            "marginals must be (labels, points)");
    require(out.shape(0) == static_cast<std::size_t>(num_labels_) && out.shape(1) == squared_.size(),
            "out must be (labels, pixels)");
    const std::size_t pixels = squared_.size(), count = points.size();
    const float rest = num_labels_ > 1 ? (1 - certain) / static_cast<float>(num_labels_ - 1) : 0.0f;
    const ReleasedGil released;
    parallel_for(threads, num_labels_, [&](std::int64_t label, int) {
      float* const to = out.data() + label * pixels;
      for (std::size_t i = 0; i < pixels; ++i) {
        const bool moved = margins.data()[i] < 0 && nearest_[i] >= 0;
        to[i] = labels_[moved ? nearest_[i] : i] == label ? (num_labels_ > 1 ? certain : 1.0f) : rest;
      }
      const float* const from = marginals.data() + label * count;
      for (std::size_t i = 0; i < count; ++i) to[points.data()[i]] = from[i];
    });
  }

 private:
  MaskView mask(const std::int32_t* pairs = nullptr) const {
    return {grid_, labels_.data(), squared_.data(), nearest_.data(), rank_.data(), pairs, num_labels_};
  }

  void check_pairs(const PairTable& pairs, std::int64_t count) const {
    const auto labels = static_cast<std::size_t>(num_labels_);
    require(pairs.shape(0) == labels && pairs.shape(1) == labels, "pairs must be (labels, labels)");
    for (std::size_t i = 0; i < labels * labels; ++i)
      require(pairs.data()[i] >= -1 && pairs.data()[i] < count, "pairs must be -1 or numbers of pairs");
  }

  void check_pixels(const Image& image, const Use& use) const {
    require(image.shape(0) == squared_.size() && use.size() == squared_.size(),
            "image and use must have the pixels of the mask");
    require(image.shape(1) >= 1, "the image must have a channel");
  }

  void check_points(const Points& points) const {
    const auto pixels = static_cast<std::int32_t>(squared_.size());
    for (std::size_t i = 0; i < points.size(); ++i)
      require(points.data()[i] >= 0 && points.data()[i] < pixels, "points must be pixels of the mask");
  }

  Grid grid_;
  std::int64_t num_labels_;
  std::vector<std::int32_t> rank_;
  Buffer<std::int32_t> labels_;
  Buffer<float> squared_;
  Buffer<std::int32_t> nearest_;
};

}  // namespace

void bind_mask_edges(nb::module_& module) {
  nb::class_<MaskEdges>(module, "MaskEdges")
      .def(nb::init<const Labels&, const std::vector<float>&, std::int64_t, int>(), array_arg("labels"),
           nb::arg("spacing"), nb::arg("num_labels"), nb::arg("threads"))
      .def("distances", &MaskEdges::distances, array_arg("squared"), array_arg("nearest"))
      .def("edge_lengths", &MaskEdges::edge_lengths, array_arg("use"), array_arg("out"))
      .def("profile", &MaskEdges::profile, array_arg("image"), array_arg("use"), array_arg("pairs"),
           nb::arg("bin_width"), array_arg("strengths"), array_arg("counts"), nb::arg("threads"))
      .def("margins", &MaskEdges::margins, array_arg("pairs"), array_arg("displacements"), array_arg("out"),
           nb::arg("threads"))
      .def("band", &MaskEdges::band, array_arg("margins"), array_arg("use"), nb::arg("limit"), nb::arg("order").none())
      .def("scores", &MaskEdges::scores, array_arg("use"), array_arg("margins"), nb::arg("strength"), nb::arg("width"),
           array_arg("points"), array_arg("out"), nb::arg("threads"))
      .def("assemble", &MaskEdges::assemble, array_arg("margins"), array_arg("points"), array_arg("marginals"),
           nb::arg("certain"), array_arg("out"), nb::arg("threads"));
}

}  // namespace densefield
