// Random cases of the core on several threads: stress SECONDS [SEED]. Exits with status 1 and the seed of the case at
// the first wrong result; under a sanitizer also at the first invalid access.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "image/colour_mixture.hpp"
#include "image/mask_edges.hpp"
#include "mean_field/mean_field.hpp"

using namespace densefield;

namespace {

using Floats = std::vector<float>;

[[noreturn]] void fail(unsigned seed, const char* what) {
  std::fprintf(stderr, "case %u: %s\n", seed, what);
  std::exit(1);
}

class Case {
 public:
  explicit Case(unsigned seed) : seed_(seed), random_(seed) {}

  void run() {
    points_ = integer(1, 3000);
    num_classes_ = integer(1, 40);
    iterations_ = integer(0, 4);
    const int kernels = integer(1, 2);
    convergent_ = integer(0, 1) == 0;
    for (int m = 0; m < kernels; ++m) add_coupling();
    check_filter();
    check_mean_field();
    check_interruption();
  }

 private:
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  Floats normal(std::size_t count, float scale) {
    std::normal_distribution<float> draw(0, scale);
    Floats numbers(count);
    for (float& number : numbers) number = draw(random_);
    return numbers;
  }
  void require(bool holds, const char* what) const {
    if (!holds) fail(seed_, what);
  }
  std::size_t size() const { return static_cast<std::size_t>(points_) * static_cast<std::size_t>(num_classes_); }

  void add_coupling() {
    const int d = integer(1, 6), halo = d < 4 ? integer(0, 1) : 0;
    const Floats rows = normal(static_cast<std::size_t>(points_) * static_cast<std::size_t>(d),
                               std::pow(10.0f, static_cast<float>(integer(-1, 2))));
    Embedding embedding{d, true, {}};
    for (int i = 0; i < d; ++i) embedding.scale[i] = std::sqrt(2.0 / 3.0) * (d + 1) / std::sqrt((i + 1.0) * (i + 2.0));
    std::vector<Pass> passes;
    for (int axis = 0; axis <= d; ++axis) passes.push_back({axis, 1.0f / 6});
    for (int axis = d; axis >= 0; --axis) passes.push_back({axis, 1.0f / 6});
    const Features features{rows.data(), false, points_};
    const LatticeKernels& chosen = kernels("baseline").lattice;
    filters_.push_back(std::make_unique<LatticeFilter>(build_lattice(embedding, features, halo, chosen, integer(1, 4)),
                                                       passes, chosen));
    const auto n = static_cast<std::size_t>(points_);
    factors_.push_back(Floats(n, 1.0f));
    Floats sums(n);
    filters_.back()->apply(factors_.back().data(), sums.data(), {1, 1}, false, 1, integer(1, 4));
    for (std::size_t i = 0; i < n; ++i) {
      require(sums[i] > 0 && std::isfinite(sums[i]), "a sum of positive numbers is not positive");
      factors_.back()[i] = 1 / std::sqrt(sums[i]);
    }
    const int rank = integer(0, 2);
    const auto l = static_cast<std::size_t>(num_classes_);
    weights_.push_back(normal(rank == 0 ? 1 : rank == 1 ? l : l * l, 1));
    if (convergent_) make_semidefinite(weights_.back(), rank);
    const float* own = nullptr;
    // Programs with a matrix take a long time for many classes.
    if (integer(0, 3) == 0 || (convergent_ && (rank < 2 || num_classes_ < 8))) {
      diagonals_.push_back(Floats(n));
      filters_.back()->diagonal(diagonals_.back().data(), 1, integer(1, 4));
      own = diagonals_.back().data();
    }
    couplings_.push_back(
        {filters_.back().get(), 1, factors_.back().data(), factors_.back().data(), own, weights_.back().data(), rank});
  }

  // Numbers become positive, a matrix M becomes M·Mᵀ / L.
  void make_semidefinite(Floats& weight, int rank) const {
    const Floats given = weight;
    const auto l = static_cast<std::size_t>(num_classes_);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] = rank < 2 ? std::abs(given[i]) : 0;
      for (std::size_t k = 0; rank == 2 && k < l; ++k)
        weight[i] += given[i / l * l + k] * given[i % l * l + k] / static_cast<float>(l);
    }
  }

  // ⟨a, K b⟩ = ⟨Kᵀ a, b⟩, and the same bits for any number of threads.
  void check_filter() {
    const LatticeFilter& filter = *filters_.front();
    const Shape shape{integer(1, 2), integer(1, 40)};
    const auto count = static_cast<std::size_t>(points_ * shape.batch * shape.channels);
    const Floats a = normal(count, 1), b = normal(count, 1);
    Floats forward(count), again(count), back(count);
    filter.apply(b.data(), forward.data(), shape, false, 1, 1);
    filter.apply(b.data(), again.data(), shape, false, 1, 3);
    require(forward == again, "filtering depends on the number of threads");
    filter.apply(a.data(), back.data(), shape, true, 1, 2);
    double left = 0, right = 0, magnitude = 0;
    for (std::size_t i = 0; i < count; ++i) {
      left += static_cast<double>(a[i]) * forward[i];
      right += static_cast<double>(back[i]) * b[i];
      magnitude += std::abs(static_cast<double>(a[i]) * forward[i]);
    }
    require(std::abs(left - right) <= 1e-4 * magnitude + 1e-6, "the adjoint is not that of the operator");
    require(filter.calibrated_magnitude(2) > 0, "the magnitude is not positive");
  }

  struct Result {
    Floats marginals, log_marginals, states, to_scores;
    bool operator==(const Result&) const = default;
  };

  Result infer(const Floats& scores, const Floats& cotangent, int threads) const {
    const Tiling tiling(couplings_, points_, num_classes_);
    Result result{Floats(size()), Floats(size()), Floats(static_cast<std::size_t>(iterations_ * tiling.state_floats())),
                  Floats(size())};
    const TileKernels& tile = kernels("baseline").tile;
    const Inference task{.scores = scores.data(),
                         .iterations = iterations_,
                         .convergent = convergent_,
                         .marginals = result.marginals.data(),
                         .log_marginals = result.log_marginals.data(),
                         .states = result.states.data()};
    mean_field(couplings_, tiling, task, tile, threads);
    std::vector<std::vector<double>> mu;
    BackwardTask back{.cotangent = cotangent.data(),
                      .log_marginals = result.log_marginals.data(),
                      .states = result.states.data(),
                      .iterations = iterations_,
                      .convergent = convergent_,
                      .scores = result.to_scores.data()};
    for (const Floats& weight : weights_) {
      mu.emplace_back(weight.size(), 0.0);
      back.gradients.push_back({.mu = mu.back().data()});
    }
    mean_field_backward(couplings_, tiling, back, tile, threads);
    return result;
  }

  void check_mean_field() {
    const Floats scores = normal(size(), 3), cotangent = normal(size(), 1);
    const Result one = infer(scores, cotangent, 1), several = infer(scores, cotangent, 3);
    require(one == several, "inference depends on the number of threads");
    for (std::int64_t point = 0; point < points_; ++point) {
      double sum = 0;
      for (int l = 0; l < num_classes_; ++l) sum += one.marginals[static_cast<std::size_t>(l * points_ + point)];
      require(std::abs(sum - 1) < 1e-4, "marginals do not sum to one");
    }
    for (const float slope : one.to_scores) require(std::isfinite(slope), "a gradient is not finite");
  }

  // An interrupted call throws and leaves no state behind.
  void check_interruption() {
    int left = integer(0, 3);
    const Floats scores = normal(size(), 3), cotangent = normal(size(), 1);
    const Result before = infer(scores, cotangent, 2);
    Interrupt interrupt([](void* context) { return --*static_cast<int*>(context) < 0; }, &left, {});
    current_interrupt = &interrupt;
    try {
      infer(scores, cotangent, integer(1, 3));
      require(!interrupt.requested(), "a call that was interrupted went on");
    } catch (const Interrupted&) {
      require(interrupt.requested(), "a call ended that was not interrupted");
    }
    current_interrupt = nullptr;
    require(infer(scores, cotangent, 2) == before, "an interrupted call changed the next");
  }

  unsigned seed_;
  std::mt19937 random_;
  std::int64_t points_ = 0;
  int num_classes_ = 0, iterations_ = 0;
  bool convergent_ = false;
  std::vector<Floats> factors_, weights_, diagonals_;
  std::vector<std::unique_ptr<LatticeFilter>> filters_;
  std::vector<Coupling> couplings_;
};

// A mask of random patches on a random image: distances, edge profiles, margins, colours and scores.
class MaskCase {
 public:
  explicit MaskCase(unsigned seed) : seed_(seed), random_(seed) {}

  void run() {
    grid_.size[0] = integer(0, 2) == 0 ? integer(1, 6) : 1;
    grid_.size[1] = integer(1, 40);
    grid_.size[2] = integer(1, 40);
    for (float& each : grid_.spacing) each = integer(0, 1) == 0 ? 1.0f : std::pow(10.0f, real(-1.0f, 1.0f));
    num_labels_ = integer(1, 6);
    pixels_ = static_cast<std::size_t>(grid_.num_pixels());
    draw_labels();
    check_distances();
    number_pairs();
    if (integer(0, 1) == 0)
      check_image<std::uint8_t>();
    else
      check_image<float>();
  }

 private:
  using Integers = std::vector<std::int32_t>;
  using Counts = std::vector<std::int64_t>;

  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(random_); }
  void require(bool holds, const char* what) const {
    if (!holds) fail(seed_, what);
  }

  // Patches: some pixels keep the label of the one before.
  void draw_labels() {
    const int change = integer(1, 30);
    labels_.resize(pixels_);
    for (std::size_t i = 0; i < pixels_; ++i)
      labels_[i] = i == 0 || integer(0, change) == 0 ? integer(0, num_labels_ - 1) : labels_[i - 1];
  }

  double squared(std::size_t from, std::size_t to) const {
    const auto rows = static_cast<std::size_t>(grid_.size[1]), columns = static_cast<std::size_t>(grid_.size[2]);
    const auto step = [](std::size_t a, std::size_t b, float spacing) {
      const double away = (static_cast<double>(a) - static_cast<double>(b)) * spacing;
      return away * away;
    };
    return step(from / columns / rows, to / columns / rows, grid_.spacing[0]) +
           step(from / columns % rows, to / columns % rows, grid_.spacing[1]) +
           step(from % columns, to % columns, grid_.spacing[2]);
  }

  void check_distances() {
    Floats other_squared(pixels_);
    Integers other_nearest(pixels_);
    squared_.resize(pixels_);
    nearest_.resize(pixels_);
    nearest_other_label(grid_, labels_.data(), squared_.data(), nearest_.data(), 1);
    nearest_other_label(grid_, labels_.data(), other_squared.data(), other_nearest.data(), 3);
    require(squared_ == other_squared && nearest_ == other_nearest, "distances depend on the number of threads");
    for (int round = 0; round < 20; ++round) {  // some pixels, against all others
      const auto pixel = static_cast<std::size_t>(integer(0, static_cast<int>(pixels_) - 1));
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < pixels_; ++i)
        if (labels_[i] != labels_[pixel]) least = std::min(least, squared(pixel, i));
      if (std::isinf(least)) {
        require(std::isinf(squared_[pixel]) && nearest_[pixel] == -1, "there is no other label");
        continue;
      }
      const auto found = static_cast<std::size_t>(nearest_[pixel]);
      require(found < pixels_ && labels_[found] != labels_[pixel], "the nearest pixel has the same label");
      require(std::abs(squared_[pixel] - least) <= 1e-6 * least, "a distance is wrong");
      require(std::abs(squared(pixel, found) - least) <= 1e-6 * least, "another pixel is nearer");
    }
  }

  // Random ranks, and pairs of which some are left out.
  void number_pairs() {
    const auto labels = static_cast<std::size_t>(num_labels_);
    rank_.resize(labels);
    for (std::size_t i = 0; i < labels; ++i) rank_[i] = static_cast<std::int32_t>(i);
    std::shuffle(rank_.begin(), rank_.end(), random_);
    pairs_.assign(labels * labels, -1);
    num_pairs_ = 1;
    for (std::size_t a = 0; a < labels; ++a)
      for (std::size_t b = a + 1; b < labels; ++b)
        if (integer(0, 3) > 0) pairs_[a * labels + b] = pairs_[b * labels + a] = num_pairs_++;
  }

  struct Result {
    Counts strengths, pixels, colours;
    Floats margins, scores, likelihoods;
    bool operator==(const Result&) const = default;
  };

  template <class Number>
  void check_image() {
    const int channels = integer(1, 3);
    std::vector<Number> values(pixels_ * static_cast<std::size_t>(channels));
    for (Number& value : values) value = static_cast<Number>(integer(0, 255));
    if constexpr (std::is_floating_point_v<Number>)
      if (integer(0, 3) == 0)
        for (const Number value : {std::numeric_limits<Number>::quiet_NaN(), std::numeric_limits<Number>::infinity(),
                                   -std::numeric_limits<Number>::infinity(), std::numeric_limits<Number>::max()})
          values[static_cast<std::size_t>(integer(0, static_cast<int>(values.size()) - 1))] = value;
    std::vector<std::uint8_t> use(pixels_);
    for (std::uint8_t& each : use) each = static_cast<std::uint8_t>(integer(0, 9) == 0 ? integer(0, 1) : 2);
    const auto known = std::count(use.begin(), use.end(), 2);
    const ImageView<Number> image{values.data(), channels};
    const MaskView mask{grid_,        labels_.data(), squared_.data(), nearest_.data(),
                        rank_.data(), pairs_.data(),  num_labels_};
    const ProfileShape shape{num_pairs_, integer(1, 16), integer(1, 24)};
    std::vector<Displacement> moved(static_cast<std::size_t>(num_pairs_));
    for (Displacement& each : moved) each = {real(-5, 5), real(-5, 5), real(-5, 5)};
    const ColourBins bins{Floats(static_cast<std::size_t>(channels), real(-10, 50)),
                          Floats(static_cast<std::size_t>(channels), real(0, 1)), integer(1, 9)};
    const MixtureDesign design{integer(1, 9), integer(0, 3), real(0.1f, 20)};
    Integers counted = labels_;
    for (std::size_t i = 0; i < pixels_; ++i)
      if (use[i] != 2) counted[i] = -1;
    Integers points(pixels_ / 2);
    for (std::int32_t& each : points) each = integer(0, static_cast<int>(pixels_) - 1);
    // Widths at which distances, which are multiples of the spacing, fall between bins and on their ends.
    const float width = integer(0, 1) == 0 ? real(0.05f, 3)
                                           : (static_cast<float>(integer(1, 9)) - 0.5f) * grid_.spacing[2] /
                                                 static_cast<float>(shape.bins);
    const auto compute = [&](int threads) {
      Result result{Counts(static_cast<std::size_t>(shape.cells())),
                    Counts(static_cast<std::size_t>(shape.cells())),
                    Counts(static_cast<std::size_t>(num_labels_ * bins.num_bins() * (1 + channels))),
                    Floats(pixels_),
                    Floats(static_cast<std::size_t>(num_labels_) * points.size()),
                    Floats(static_cast<std::size_t>(num_labels_) * points.size())};
      edge_profile(mask, image, use.data(), width, shape, result.strengths.data(), result.pixels.data(), threads);
      edge_margins(mask, moved.data(), result.margins.data(), threads);
      const auto num_points = static_cast<std::int64_t>(points.size());
      band_scores(mask, use.data(), result.margins.data(), {4, 2}, points.data(), num_points, result.scores.data(),
                  threads);
      colour_sums(image, counted.data(), static_cast<std::int64_t>(pixels_), bins, num_labels_, result.colours.data(),
                  threads);
      std::vector<Gaussian> mixtures(static_cast<std::size_t>(num_labels_ * design.components));
      fit_mixtures(result.colours.data(), num_labels_, bins, design, mixtures.data(), threads);
      add_log_likelihoods(image, bins, mixtures.data(), num_labels_, design.components, -20, 1, points.data(),
                          num_points, result.likelihoods.data(), threads);
      return result;
    };
    const Result one = compute(1);
    require(one == compute(3), "edges, colours or scores depend on the number of threads");
    std::int64_t profiled = 0, coloured = 0;
    for (const std::int64_t each : one.pixels) profiled += each;
    for (std::size_t i = 0; i < one.colours.size(); i += static_cast<std::size_t>(1 + channels))
      coloured += one.colours[i];
    require(profiled <= known, "a profile counts pixels twice");
    require(coloured == known, "not every known pixel has a colour");
    for (const std::int64_t each : one.strengths) require(each >= 0, "a strength is negative");
    for (const float each : one.scores) require(std::abs(each) <= 4, "a score is too large");
    for (const float each : one.likelihoods) require(std::abs(each) <= 25, "a log-likelihood is not bounded");
    for (std::size_t i = 0; i < pixels_; ++i)
      require(nearest_[i] < 0 ? std::isinf(one.margins[i]) : std::isfinite(one.margins[i]), "a margin is wrong");
  }

  unsigned seed_;
  std::mt19937 random_;
  Grid grid_{};
  int num_labels_ = 0, num_pairs_ = 0;
  std::size_t pixels_ = 0;
  Integers labels_, nearest_, rank_, pairs_;
  Floats squared_;
};

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  const auto first = static_cast<unsigned>(count > 2 ? std::atol(arguments[2]) : 1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::atomic<unsigned> next{first};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (std::chrono::steady_clock::now() < end) {
        const unsigned seed = next++;
        Case(seed).run();
        MaskCase(seed).run();
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("%u cases from seed %u on, no errors\n", next - first, first);
}
