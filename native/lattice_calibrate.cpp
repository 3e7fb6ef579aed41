// The factor that makes K·1 equal the exact Gaussian sum on average.
//
// How much a lattice loses to missing vertices depends on the data, so it is measured: at a few hundred points, K·1 is
// set against Σ_j exp(−½‖x_i−x_j‖²). That sum runs over vertices instead of points, each vertex with the mass splatted
// on it: splatting adds the variance ⅟₁₂·(d+1)² to every direction of the lattice, so a Gaussian narrower by as much
// gives the same sum on average, for a tenth of the terms.
#include <algorithm>
#include <bit>
#include <cmath>

#include "lattice_filter.hpp"

namespace densefield {

namespace {

constexpr std::int64_t wanted_samples = 256;

// A number that depends on the point's own features only, so that the sample does not depend on the points' order.
template <class In>
std::uint64_t fingerprint(const In* features, int dimension) {
  std::uint64_t mixed = 0, odd = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < dimension; ++i) {
    mixed += std::bit_cast<std::uint64_t>(static_cast<double>(features[i]) + 0.0) * odd;  // −0 counts as 0
    odd += 0x7f4a7c15f39cc060u;
  }
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
  return (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
}

template <class In>
std::vector<std::int64_t> choose_samples(const In* features, int dimension, std::int64_t points, int threads) {
  std::vector<std::int64_t> chosen;
  if (points <= wanted_samples) {
    for (std::int64_t point = 0; point < points; ++point) chosen.push_back(point);
    return chosen;
  }
  const std::uint64_t limit = ~std::uint64_t{0} / static_cast<std::uint64_t>(points) * wanted_samples;
  const std::int64_t piece = 1 << 14, pieces = (points + piece - 1) / piece;
  std::vector<std::vector<std::int64_t>> parts(pieces);
  std::vector<std::pair<std::uint64_t, std::int64_t>> least(pieces, {~std::uint64_t{0}, 0});
  parallel_for(threads, pieces, [&](std::int64_t i) {
    for (std::int64_t point = i * piece; point < std::min(points, (i + 1) * piece); ++point) {
      const std::uint64_t print = fingerprint(features + point * dimension, dimension);
      least[i] = std::min(least[i], {print, point});
      if (print < limit && parts[i].size() < 4 * wanted_samples) parts[i].push_back(point);
    }
  });
  for (const std::vector<std::int64_t>& part : parts) chosen.insert(chosen.end(), part.begin(), part.end());
  // Equal points have equal fingerprints: all of them may be chosen, or none.
  if (chosen.empty()) chosen.push_back(std::min_element(least.begin(), least.end())->second);
  if (chosen.size() > 4 * wanted_samples) chosen.resize(4 * wanted_samples);
  return chosen;
}

}  // namespace

std::vector<std::int64_t> calibration_samples(const Features& features, int dimension, int threads) {
  if (features.is_double)
    return choose_samples(static_cast<const double*>(features.data), dimension, features.points, threads);
  return choose_samples(static_cast<const float*>(features.data), dimension, features.points, threads);
}

float LatticeFilter::calibrated_magnitude(const Features& features, int threads) const {
  const std::int64_t points = lattice_.points, vertices = lattice_.vertices;
  const int d = lattice_.embedding.dimension, corners = d + 1;
  if (points == 0) return 1;
  const std::vector<std::int64_t> samples = calibration_samples(features, d, threads);
  const auto count = static_cast<std::int64_t>(samples.size());

  // Mass on every vertex, before and after the blur.
  Buffer<float> ones(points), mass(vertices), blurred(vertices), local(lattice_.slots());
  const Block block{0, 1, 1, 1, row_kind(1)};
  Queue queue(lattice_.chunks());
  parallel(threads, [&](const Worker& worker) {
    const auto [first, last] = worker.share(points);
    std::fill(ones.data() + first, ones.data() + last, 1.0f);
    worker.sync();
    splat(queue, block, ones.data(), local.data());
    worker.sync();
    gather(worker, block, local.data(), 1.0f, mass.data());
    gather(worker, block, local.data(), 1.0f, blurred.data());
    blur(worker, block, blurred.data(), false);
  });

  // Where samples and vertices are in the plane of the lattice, in units of kernel widths. Coordinates are taken
  // relative to the corner of all keys, which keeps them small enough for float32.
  double low[max_corners], sum_low = 0;
  for (int j = 0; j < d; ++j) sum_low += low[j] = corners * static_cast<double>(lattice_.code->low(j));
  low[d] = -sum_low;
  const double width = lattice_.embedding.scale[0] * std::sqrt(2.0);  // elevation is an isometry times this
  Buffer<float> at(static_cast<std::size_t>(corners * vertices));
  parallel(threads, [&](const Worker& worker) {
    const auto [first, last] = worker.share(vertices);
    for (std::int64_t vertex = first; vertex < last; ++vertex) {
      std::int64_t coordinates[max_corners];
      lattice_.code->coordinates(lattice_.keys[vertex], coordinates);
      for (int j = 0; j < corners; ++j)
        at[j * vertices + vertex] = static_cast<float>((static_cast<double>(coordinates[j]) - low[j]) / width);
    }
  });

  const double spread = corners * corners / (12.0 * width * width);  // variance that splatting adds
  const double narrow = 1.0 - spread;
  std::vector<double> ratios(count);
  parallel_for(threads, count, [&](std::int64_t i) {
    const Chunk chunk = lattice_.chunk(samples[i] / lattice_.chunk_points);
    const std::int64_t offset = samples[i] % lattice_.chunk_points * corners;
    // A point is the weighted mean of its corners.
    float here[max_corners] = {};
    double filtered = 0;
    for (int k = 0; k < corners; ++k) {
      const std::int64_t vertex = chunk.vertices[chunk.ids[offset + k]];
      const float weight = chunk.weights[offset + k];
      filtered += weight * blurred[vertex];
      for (int j = 0; j < corners; ++j) here[j] += weight * at[j * vertices + vertex];
    }
    const double exact = kernels_.gaussian_sum(here, corners, at.data(), mass.data(), vertices,
                                               static_cast<float>(-0.5 / narrow));
    ratios[i] = filtered / (exact * std::pow(narrow, -0.5 * d));
  });
  double mean = 0;
  for (const double ratio : ratios) mean += ratio / static_cast<double>(count);
  return static_cast<float>(1.0 / mean);
}

}  // namespace densefield
