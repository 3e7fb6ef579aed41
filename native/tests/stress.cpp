// Random cases of the core on several threads: stress SECONDS [SEED]. Exits with status 1 and the seed of the case at
// the first wrong result; under a sanitizer also at the first invalid access.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

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
    filters_.push_back(std::make_unique<LatticeFilter>(
        build_lattice(embedding, features, halo, chosen, integer(1, 4)), passes, chosen));
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
    const float* own = nullptr;
    if (integer(0, 3) == 0) {
      diagonals_.push_back(Floats(n));
      filters_.back()->diagonal(diagonals_.back().data(), 1, integer(1, 4));
      own = diagonals_.back().data();
    }
    couplings_.push_back(
        {filters_.back().get(), 1, factors_.back().data(), factors_.back().data(), own, weights_.back().data(), rank});
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
                         .marginals = result.marginals.data(),
                         .log_marginals = result.log_marginals.data(),
                         .states = result.states.data()};
    mean_field(couplings_, tiling, task, tile, threads);
    std::vector<std::vector<double>> mu;
    BackwardTask back{.cotangent = cotangent.data(),
                      .log_marginals = result.log_marginals.data(),
                      .states = result.states.data(),
                      .iterations = iterations_,
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
  std::vector<Floats> factors_, weights_, diagonals_;
  std::vector<std::unique_ptr<LatticeFilter>> filters_;
  std::vector<Coupling> couplings_;
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
      while (std::chrono::steady_clock::now() < end) Case(next++).run();
    });
  for (std::thread& thread : threads) thread.join();
  std::printf("%u cases from seed %u on, no errors\n", next - first, first);
}
