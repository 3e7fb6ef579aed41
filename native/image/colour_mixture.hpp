// The colours of labels as mixtures of Gaussians: fitted to counts of colours in bins, and their log-likelihoods.
//
// Colours have at most three channels. They are measured in 1/256 of their range: 0 … 256 along each channel.
#pragma once

#include <cstdint>
#include <vector>

#include "image/label_distance.hpp"

namespace densefield {

// Colours are binned by (value - low) · scale, `levels` bins per channel.
struct ColourBins {
  std::vector<float> low, scale;  // (channels,)
  int levels;

  std::int64_t channels() const { return static_cast<std::int64_t>(low.size()); }

  std::int64_t num_bins() const {
    std::int64_t bins = 1;
    for (std::size_t c = 0; c < low.size(); ++c) bins *= levels;
    return bins;
  }

  // The position of a value along a channel, 0 … levels; 0 for NaN.
  template <class Number>
  float place(Number value, std::size_t channel) const {
    const float found = (static_cast<float>(value) - low[channel]) * scale[channel];
    return found > 0 ? (found < static_cast<float>(levels) ? found : static_cast<float>(levels)) : 0.0f;
  }
};

// Sums of the colours of each label by bin, (labels, bins, 1 + channels): the number of pixels, and for each channel the
// sum of their positions within the bin, in 1/256 of its size. Pixels with the label -1 are left out.
template <class Number>
void colour_sums(const ImageView<Number>& image, const std::int32_t* labels, std::int64_t num_pixels,
                 const ColourBins& bins, std::int64_t num_labels, std::int64_t* sums, int threads);

// One Gaussian of a mixture, with its share π: log(π p(x)) = offset - |root (x - mean)|²/2, `root` a lower triangle.
struct Gaussian {
  float mean[3];
  float root[6];  // (0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)
  float offset;
};

struct MixtureDesign {
  std::int64_t components;  // of each label
  int iterations;           // in which bins are assigned to the most likely component
  double least_variance;    // added to the variance along each channel
};

// The mixtures (labels, components) of the sums of `colour_sums`. Components begin as halves of the one that varies most,
// cut across its principal axis. Those without pixels have an offset of -∞; a label without pixels has all colours.
void fit_mixtures(const std::int64_t* sums, std::int64_t num_labels, const ColourBins& bins,
                  const MixtureDesign& design, Gaussian* mixtures, int threads);

// Adds weight · (log p(colour | label) - mean over labels) to the scores (labels, points) of some pixels, or of all if
// `points` is null. Log p is that of the most likely component, and at least `least`.
template <class Number>
void add_log_likelihoods(const ImageView<Number>& image, const ColourBins& bins, const Gaussian* mixtures,
                         std::int64_t num_labels, std::int64_t components, float least, float weight,
                         const std::int32_t* points, std::int64_t num_points, float* scores, int threads);

}  // namespace densefield
