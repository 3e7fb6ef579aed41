// The factor that makes K·1 equal the exact Gaussian sum on average.
//
// How much a lattice loses to missing vertices depends on the data, so it is measured: at some hundred points, K·1 is
// compared with Σ_j exp(−½‖x_i−x_j‖²). The sum over all points would take longer than the lattice itself, so for most
// samples it runs over vertices and the mass splatted on them: splatting adds the variance (d+1)²/12 to every
// direction of the lattice, so a Gaussian narrowed by it gives nearly the same sum with a tenth of the terms. Both
// sums are computed for every eighth sample to correct the difference.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "lattice/filter.hpp"

namespace densefield {

namespace {

constexpr std::int64_t max_samples = 512;
constexpr std::int64_t check_every = 8;  // every eighth sample is summed over points too

// A hash of the point's features, so that the sample does not depend on the order of points.
template <class In>
std::uint64_t feature_hash(const In* features, int dimension) {
  std::uint64_t mixed = 0, odd = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < dimension; ++i) {
    mixed += std::bit_cast<std::uint64_t>(static_cast<double>(features[i]) + 0.0) * odd;  // + 0.0 turns −0 into 0
    odd += 0x7f4a7c15f39cc060u;
  }
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
  return (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
}

// Points evenly spaced in the order of their hashes, so repeated points are chosen in proportion.
template <class In>
std::vector<std::int64_t> choose_samples(const In* features, int dimension, std::int64_t points, int threads) {
  const std::int64_t count = std::min(points, max_samples);
  std::vector<std::int64_t> samples(count);
  if (count == points) {
    std::iota(samples.begin(), samples.end(), std::int64_t{0});
    return samples;
  }
  Buffer<std::uint64_t> hashes(points);
  parallel(threads, [&](const Worker& worker) {
    const auto [first, last] = worker.share(points);
    for (std::int64_t point = first; point < last; ++point)
      hashes[point] = feature_hash(features + point * dimension, dimension);
  });
  // Only buckets that contain a sample are sorted.
  constexpr int bucket_bits = 12;
  const auto bucket_of = [&](std::int64_t point) { return hashes[point] >> (64 - bucket_bits); };
  std::vector<std::int64_t> begin((1 << bucket_bits) + 1, 0);
  for (std::int64_t point = 0; point < points; ++point) ++begin[bucket_of(point) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::vector<std::pair<std::uint64_t, std::int64_t>>> members(1 << bucket_bits);
  std::vector<bool> wanted(1 << bucket_bits, false);
  const auto rank = [&](std::int64_t k) { return (2 * k + 1) * points / (2 * count); };
  const auto bucket_at = [&](std::int64_t place) {
    return std::upper_bound(begin.begin(), begin.end(), place) - begin.begin() - 1;
  };
  for (std::int64_t k = 0; k < count; ++k) wanted[bucket_at(rank(k))] = true;
  for (std::int64_t point = 0; point < points; ++point)
    if (wanted[bucket_of(point)]) members[bucket_of(point)].push_back({hashes[point], point});
  for (auto& bucket : members) std::sort(bucket.begin(), bucket.end());
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t bucket = bucket_at(rank(k));
    samples[k] = members[bucket][rank(k) - begin[bucket]].second;
  }
  return samples;
}

// Coordinates of the points relative to the middle of their range, (dimension, points).
template <class Real, class In>
Buffer<Real> columns(const In* features, int dimension, std::int64_t points, int threads) {
  Buffer<Real> columns(static_cast<std::size_t>(dimension * points));
  parallel_for(threads, dimension, [&](std::int64_t axis, int) {
    double low = features[axis], high = features[axis];
    for (std::int64_t point = 0; point < points; ++point) {
      low = std::min<double>(low, features[point * dimension + axis]);
      high = std::max<double>(high, features[point * dimension + axis]);
    }
    for (std::int64_t point = 0; point < points; ++point)
      columns[axis * points + point] = static_cast<Real>(features[point * dimension + axis] - (low + high) / 2);
  });
  return columns;
}

}  // namespace

std::vector<std::int64_t> calibration_samples(const Features& features, int dimension, int threads) {
  if (features.is_double)
    return choose_samples(static_cast<const double*>(features.data), dimension, features.points, threads);
  return choose_samples(static_cast<const float*>(features.data), dimension, features.points, threads);
}

template <class Real>
float LatticeFilter::calibrate(GaussianSum<Real> gaussian_sum, int threads) const {
  const Features& features = lattice_.features;
  const std::int64_t points = lattice_.points, vertices = lattice_.vertices;
  const int d = lattice_.embedding.dimension, corners = d + 1;
  const std::vector<std::int64_t> samples = calibration_samples(features, d, threads);

  // Mass on every vertex, before and after the blur.
  Buffer<float> ones(points), mass(vertices), blurred(vertices), local(lattice_.slots());
  const Block block{0, 1, 1, 1, row_kind(1)};
  Queue queue(lattice_.chunks(), threads);
  parallel(threads, [&](const Worker& worker) {
    const auto [first, last] = worker.share(points);
    std::fill(ones.data() + first, ones.data() + last, 1.0f);
    worker.sync();
    splat(worker, queue, block, ones.data(), local.data());
    worker.sync();
    gather(worker, block.kind, local.data(), 1.0f, mass.data());
    gather(worker, block.kind, local.data(), 1.0f, blurred.data());
    blur(worker, block.kind, blurred.data(), false);
  });

  // Vertices in the plane of the lattice, in units of kernel widths, relative to the origin of the keys.
  double low[max_corners], sum_low = 0;
  for (int j = 0; j < d; ++j) sum_low += low[j] = corners * static_cast<double>(lattice_.code->low(j));
  low[d] = -sum_low;
  const double width = lattice_.embedding.scale[0] * std::sqrt(2.0);  // elevation is an isometry times this
  Buffer<Real> at(static_cast<std::size_t>(corners * vertices));
  parallel(threads, [&](const Worker& worker) {
    const auto [first, last] = worker.share(vertices);
    for (std::int64_t vertex = first; vertex < last; ++vertex) {
      std::int64_t coordinates[max_corners];
      lattice_.code->coordinates(lattice_.keys[vertex], coordinates);
      for (int j = 0; j < corners; ++j)
        at[j * vertices + vertex] = static_cast<Real>((static_cast<double>(coordinates[j]) - low[j]) / width);
    }
  });

  const double narrow = 1.0 - corners * corners / (12.0 * width * width);  // less the variance of splatting
  const auto count = static_cast<std::int64_t>(samples.size()), step = points > max_samples ? check_every : 1;
  const std::int64_t checked = (count + step - 1) / step;
  std::vector<double> vertex_sums(count), filtered_over_vertices(count), vertices_over_points(checked);
  parallel_for(threads, count, [&](std::int64_t i, int) {
    const std::int64_t point = samples[i];
    const Chunk chunk = lattice_.chunk(point / lattice_.chunk_points);
    const std::int64_t offset = point % lattice_.chunk_points * corners;
    // A point is the weighted mean of its corners, relative to the first: float32 weights of large numbers are too
    // coarse.
    const std::int64_t origin = chunk.vertices[chunk.ids[offset]];
    Real here[max_corners];
    for (int j = 0; j < corners; ++j) here[j] = at[j * vertices + origin];
    double filtered = 0;
    for (int k = 0; k < corners; ++k) {
      const std::int64_t vertex = chunk.vertices[chunk.ids[offset + k]];
      const float weight = chunk.weights[offset + k];
      filtered += weight * blurred[vertex];
      for (int j = 0; j < corners; ++j) here[j] += weight * (at[j * vertices + vertex] - at[j * vertices + origin]);
    }
    vertex_sums[i] = std::pow(narrow, -0.5 * d) *
                     gaussian_sum(here, corners, at.data(), mass.data(), vertices, static_cast<float>(-0.5 / narrow));
    filtered_over_vertices[i] = filtered / vertex_sums[i];
  });
  const Buffer<Real> x = features.is_double
                             ? columns<Real>(static_cast<const double*>(features.data), d, points, threads)
                             : columns<Real>(static_cast<const float*>(features.data), d, points, threads);
  parallel_for(threads, checked, [&](std::int64_t i, int) {
    Real here[max_dimension];
    for (int axis = 0; axis < d; ++axis) here[axis] = x[axis * points + samples[i * step]];
    vertices_over_points[i] = vertex_sums[i * step] / gaussian_sum(here, d, x.data(), ones.data(), points, -0.5f);
  });
  const auto mean = [](const std::vector<double>& ratios) {
    return std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size());
  };
  return static_cast<float>(1.0 / (mean(filtered_over_vertices) * mean(vertices_over_points)));
}

float LatticeFilter::calibrated_magnitude(int threads) const {
  if (lattice_.points == 0) return 1;
  threads = worth_starting(threads, lattice_.points / 4096);
  // In float32, coordinates up to 2¹⁴ cells are exact to a thousandth of a cell.
  return lattice_.code->span() < 1 << 14 ? calibrate(kernels_.gaussian_sum, threads)
                                         : calibrate(kernels_.gaussian_sum_wide, threads);
}

}  // namespace densefield
