#include "image/colour_mixture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/parallel.hpp"

namespace densefield {

namespace {

constexpr int kChannels = 3;         // channels that an image does not have are 0
constexpr double kRange = 256;       // of a channel
constexpr std::int64_t kPart = 256;  // of a bin, for integer sums, whose order does not matter

using Vector = std::array<double, kChannels>;
using Matrix = std::array<Vector, kChannels>;

// The mean colour of the pixels in a bin, and their number.
struct Sample {
  Vector colour;
  double weight;
};

// Weight, mean and covariance of some samples.
struct Moments {
  double weight = 0;
  Vector mean{};
  Matrix covariance{};
};

std::vector<Sample> samples_of(const std::int64_t* sums, const ColourBins& bins) {
  std::vector<Sample> samples;
  const std::int64_t channels = bins.channels(), width = 1 + channels;
  for (std::int64_t bin = 0; bin < bins.num_bins(); ++bin) {
    const std::int64_t* const sum = sums + bin * width;
    if (sum[0] <= 0) continue;
    Sample sample{{}, static_cast<double>(sum[0])};
    std::int64_t rest = bin;
    for (std::int64_t c = channels; c-- > 0; rest /= bins.levels) {
      const double within = static_cast<double>(sum[1 + c]) / (static_cast<double>(kPart) * sample.weight);
      sample.colour[c] = (static_cast<double>(rest % bins.levels) + within) * (kRange / bins.levels);
    }
    samples.push_back(sample);
  }
  return samples;
}

// The moments of the samples of each component.
std::vector<Moments> moments_of(const std::vector<Sample>& samples, const std::vector<int>& assigned, int components) {
  std::vector<Moments> found(components);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Moments& to = found[assigned[i]];
    to.weight += samples[i].weight;
    for (int a = 0; a < kChannels; ++a) to.mean[a] += samples[i].weight * samples[i].colour[a];
  }
  for (Moments& each : found)
    for (double& mean : each.mean) mean /= std::max(each.weight, 1.0);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Moments& to = found[assigned[i]];
    for (int a = 0; a < kChannels; ++a)
      for (int b = 0; b <= a; ++b)
        to.covariance[a][b] +=
            samples[i].weight * (samples[i].colour[a] - to.mean[a]) * (samples[i].colour[b] - to.mean[b]) / to.weight;
  }
  for (Moments& each : found)
    for (int a = 0; a < kChannels; ++a)
      for (int b = 0; b < a; ++b) each.covariance[b][a] = each.covariance[a][b];
  return found;
}

double trace(const Matrix& matrix) { return matrix[0][0] + matrix[1][1] + matrix[2][2]; }

// The eigenvector of the largest eigenvalue, of any length: the longest column of a high power of the matrix.
Vector principal_axis(Matrix matrix) {
  for (int squaring = 0; squaring < 8; ++squaring) {
    const double scale = 1 / std::max(trace(matrix), std::numeric_limits<double>::min());
    Matrix square{};
    for (int a = 0; a < kChannels; ++a)
      for (int b = 0; b < kChannels; ++b)
        for (int c = 0; c < kChannels; ++c) square[a][b] += (matrix[a][c] * scale) * (matrix[c][b] * scale);
    matrix = square;
  }
  int longest = 0;
  for (int a = 1; a < kChannels; ++a)
    if (matrix[a][a] > matrix[longest][longest]) longest = a;
  return matrix[longest];
}

double dot(const Vector& one, const Vector& other) { return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]; }

// The weighted variance along an axis.
double variation(const Moments& moments, const Vector& axis) {
  double sum = 0;
  for (int a = 0; a < kChannels; ++a) sum += axis[a] * dot(moments.covariance[a], axis);
  return moments.weight * sum / std::max(dot(axis, axis), std::numeric_limits<double>::min());
}

// Assigns samples to up to `most` components; returns their number.
int split(const std::vector<Sample>& samples, int most, std::vector<int>& assigned) {
  int components = 1;
  while (components < most) {
    const std::vector<Moments> moments = moments_of(samples, assigned, components);
    int widest = 0;
    double largest = 0;
    Vector axis{};
    for (int k = 0; k < components; ++k) {
      const Vector direction = principal_axis(moments[k].covariance);
      const double here = variation(moments[k], direction);
      if (here > largest * (1 + 1e-9)) largest = here, widest = k, axis = direction;
    }
    if (!(largest > 1e-9)) break;
    const double middle = dot(moments[widest].mean, axis);
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (assigned[i] == widest && dot(samples[i].colour, axis) > middle) assigned[i] = components;
    ++components;
  }
  return components;
}

Gaussian gaussian(const Moments& moments, double share, double least_variance) {
  // The covariance is lower · lowerᵀ, and the root lower⁻¹.
  double lower[3][3] = {}, root[3][3] = {};
  for (int a = 0; a < kChannels; ++a)
    for (int b = 0; b <= a; ++b) {
      double rest = moments.covariance[a][b] + (a == b ? least_variance : 0.0);
      for (int c = 0; c < b; ++c) rest -= lower[a][c] * lower[b][c];
      lower[a][b] = a == b ? std::sqrt(std::max(rest, least_variance)) : rest / lower[b][b];
    }
  double offset = std::log(share) - 1.5 * std::log(2 * std::numbers::pi);
  for (int a = 0; a < kChannels; ++a) {
    offset -= std::log(lower[a][a]);
    root[a][a] = 1 / lower[a][a];
    for (int b = 0; b < a; ++b) {
      double rest = 0;
      for (int c = b; c < a; ++c) rest += lower[a][c] * root[c][b];
      root[a][b] = -rest / lower[a][a];
    }
  }
  Gaussian found{};
  for (int a = 0, place = 0; a < kChannels; ++a) {
    found.mean[a] = static_cast<float>(moments.mean[a]);
    for (int b = 0; b <= a; ++b) found.root[place++] = static_cast<float>(root[a][b]);
  }
  found.offset = static_cast<float>(offset);
  return found;
}

float log_density(const Gaussian& each, float x, float y, float z) {
  const float dx = x - each.mean[0], dy = y - each.mean[1], dz = z - each.mean[2];
  const float a = each.root[0] * dx, b = each.root[1] * dx + each.root[2] * dy,
              c = each.root[3] * dx + each.root[4] * dy + each.root[5] * dz;
  return each.offset - 0.5f * (a * a + b * b + c * c);
}

// The Gaussians of the components that have samples; returns their number.
int fit_components(const std::vector<Moments>& moments, double least_variance, Gaussian* out) {
  double total = 0;
  for (const Moments& each : moments) total += each.weight;
  int count = 0;
  for (const Moments& each : moments)
    if (each.weight > 0) out[count++] = gaussian(each, each.weight / total, least_variance);
  return count;
}

void fit_mixture(const std::vector<Sample>& samples, const MixtureDesign& design, Gaussian* out) {
  const Gaussian none{{}, {}, -std::numeric_limits<float>::infinity()};
  std::fill(out, out + design.components, none);
  if (samples.empty()) {
    out[0].offset = static_cast<float>(-kChannels * std::log(kRange));
    return;
  }
  std::vector<int> assigned(samples.size());
  int components = split(samples, static_cast<int>(design.components), assigned);
  for (int iteration = 0;; ++iteration) {
    std::fill(out, out + design.components, none);
    components = fit_components(moments_of(samples, assigned, components), design.least_variance, out);
    if (iteration == design.iterations) return;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const Vector& x = samples[i].colour;
      float best = -std::numeric_limits<float>::infinity();
      for (int k = 0; k < components; ++k) {
        const float here =
            log_density(out[k], static_cast<float>(x[0]), static_cast<float>(x[1]), static_cast<float>(x[2]));
        if (here > best) best = here, assigned[i] = k;
      }
    }
  }
}

}  // namespace

template <class Number>
void colour_sums(const ImageView<Number>& image, const std::int32_t* labels, std::int64_t num_pixels,
                 const ColourBins& bins, std::int64_t num_labels, std::int64_t* sums, int threads) {
  const auto channels = static_cast<std::size_t>(bins.channels());
  const std::int64_t width = 1 + bins.channels(), row = bins.num_bins() * width, cells = num_labels * row;
  const int workers = std::min(threads, 4);  // each has a table of its own
  std::vector<std::int64_t> tables(cells * (workers - 1));
  std::fill(sums, sums + cells, 0);
  parallel_for_ranges(workers, num_pixels, [&](std::int64_t first, std::int64_t last, int worker) {
    std::int64_t* const table = worker == 0 ? sums : tables.data() + cells * (worker - 1);
    for (std::int64_t pixel = first; pixel < last; ++pixel) {
      if (labels[pixel] < 0) continue;
      std::int64_t bin = 0, within[kChannels] = {};
      for (std::size_t c = 0; c < channels; ++c) {
        const float place = bins.place(image.values[pixel * image.channels + static_cast<std::int64_t>(c)], c);
        const int level = std::min(static_cast<int>(place), bins.levels - 1);
        within[c] = static_cast<std::int64_t>((place - static_cast<float>(level)) * static_cast<float>(kPart));
        bin = bin * bins.levels + level;
      }
      std::int64_t* const cell = table + labels[pixel] * row + bin * width;
      ++cell[0];
      for (std::size_t c = 0; c < channels; ++c) cell[1 + c] += within[c];
    }
  });
  for (int worker = 1; worker < workers; ++worker)
    for (std::int64_t cell = 0; cell < cells; ++cell) sums[cell] += tables[cells * (worker - 1) + cell];
}

void fit_mixtures(const std::int64_t* sums, std::int64_t num_labels, const ColourBins& bins,
                  const MixtureDesign& design, Gaussian* mixtures, int threads) {
  const std::int64_t row = bins.num_bins() * (1 + bins.channels());
  parallel_for(threads, num_labels, [&](std::int64_t label, int) {
    fit_mixture(samples_of(sums + label * row, bins), design, mixtures + label * design.components);
  });
}

template <class Number>
void add_log_likelihoods(const ImageView<Number>& image, const ColourBins& bins, const Gaussian* mixtures,
                         std::int64_t num_labels, std::int64_t components, float least, float weight,
                         const std::int32_t* points, std::int64_t num_points, float* scores, int threads) {
  constexpr int lanes = 256;  // points of one pass over the mixtures
  const float unit = static_cast<float>(kRange) / static_cast<float>(bins.levels);
  const auto channels = static_cast<std::size_t>(bins.channels());
  const std::int64_t passes = (num_points + lanes - 1) / lanes;
  std::vector<float> logs(static_cast<std::size_t>(num_labels) * lanes * std::max(threads, 1));
  parallel_for(threads, passes, [&](std::int64_t pass, int worker) {
    const std::int64_t first = pass * lanes;
    const auto count = static_cast<int>(std::min<std::int64_t>(lanes, num_points - first));
    float colours[kChannels][lanes] = {}, mean[lanes] = {};
    for (int i = 0; i < count; ++i) {
      const std::int64_t pixel = points ? points[first + i] : first + i;
      for (std::size_t c = 0; c < channels; ++c)
        colours[c][i] = unit * bins.place(image.values[pixel * image.channels + static_cast<std::int64_t>(c)], c);
    }
    float* const own = logs.data() + static_cast<std::int64_t>(worker) * num_labels * lanes;
    for (std::int64_t label = 0; label < num_labels; ++label) {
      float* const best = own + label * lanes;
      std::fill(best, best + lanes, least);
      for (std::int64_t k = 0; k < components; ++k) {
        const Gaussian each = mixtures[label * components + k];
        for (int i = 0; i < lanes; ++i)
          best[i] = std::max(best[i], log_density(each, colours[0][i], colours[1][i], colours[2][i]));
      }
      for (int i = 0; i < lanes; ++i) mean[i] += best[i] / static_cast<float>(num_labels);
    }
    for (std::int64_t label = 0; label < num_labels; ++label) {
      const float* const best = own + label * lanes;
      float* const to = scores + label * num_points + first;
      for (int i = 0; i < count; ++i) to[i] += weight * (best[i] - mean[i]);
    }
  });
}

#define DENSEFIELD_COLOUR_MIXTURE(Number)                                                                       \
  template void colour_sums(const ImageView<Number>&, const std::int32_t*, std::int64_t, const ColourBins&,     \
                            std::int64_t, std::int64_t*, int);                                                  \
  template void add_log_likelihoods(const ImageView<Number>&, const ColourBins&, const Gaussian*, std::int64_t, \
                                    std::int64_t, float, float, const std::int32_t*, std::int64_t, float*, int);
DENSEFIELD_COLOUR_MIXTURE(std::uint8_t)
DENSEFIELD_COLOUR_MIXTURE(float)
#undef DENSEFIELD_COLOUR_MIXTURE

}  // namespace densefield
