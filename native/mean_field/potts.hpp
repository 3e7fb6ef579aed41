// Mean field for Potts kernels with one channel less than classes. Softmax does not change if the same number is added
// to all classes, so messages may be relative to the last class: with δ_l = q_l - q_L the update z_l = f_l + Σ_m μ_m
// K̂_m δ_l, z_L = f_L has the same marginals, whatever they sum to. This saves 18 % of the time for 21 classes.
//
// A tile stays in rows from one lattice to the next, without transposition. Where pixels send nothing to themselves, the
// scores of the next iteration start from f_l - Σ_m μ_m own_m δ_l, which is computed while δ is in the cache.
#pragma once

#include "mean_field/updates.hpp"

namespace densefield {

class PottsUpdates final : public Updates {
 public:
  // `tiling` is for all classes, `channels` for all but the last.
  PottsUpdates(const std::vector<Coupling>& couplings, const Tiling& tiling, const Tiling& channels,
               const Inference& task, const TileKernels& kernels, int threads)
      : Updates(couplings, channels, task, kernels, threads),
        tiling_(tiling),
        score_rows_(static_cast<std::size_t>(channels.tiles() * kTile * channels.width)),
        last_scores_(static_cast<std::size_t>(tiling.tiles() * kTile)),
        reduced_scores_(has_own(couplings) ? score_rows_.size() : 0),
        out_of_range_(static_cast<std::size_t>(tiling.tiles()), 0),
        last_q_(tiling, shows_changes()) {
    for (int worker = 0; worker < threads; ++worker) {
      tiles_.emplace_back(static_cast<std::size_t>(2 * tiling.plane_floats() + kTile * channels.width));
      // Points beyond the last are computed too, from any finite numbers.
      std::fill_n(tiles_.back().data(), tiles_.back().size(), 0.0f);
    }
  }

 private:
  // A worker's memory for one tile: two in planes of all classes, one in rows of all but the last.
  struct Tile {
    float *z, *more, *rows;
  };
  // Marginals of a tile, in rows and of the last class, before multiplication by `inverse`.
  struct Exponentials {
    float last[kTile], inverse[kTile];
  };

  float tile_pass(const Worker& worker, int pass, std::int64_t first, int points) override {
    float* memory = tiles_[worker.index].data();
    const Tile at{memory, memory + tiling_.plane_floats(), memory + 2 * tiling_.plane_floats()};
    if (pass == 0) store_scores(first, points, at.z);
    // In pixel order the hardware prefetcher does not predict the next addresses.
    const float* shown = task_.marginals ? task_.marginals : task_.log_marginals;
    if (pass == task_.iterations && task_.order && shown) prefetch_planes(shown, tiling_, task_.order, first + kTile);
    const float* z = scores_and_messages(worker, pass, first, points, at.rows);
    if (may_be_last(pass)) show(first, points, z, at);
    if (pass == task_.iterations && !shows_changes()) return 0;
    Exponentials exponentials;
    prefetch_scores(first + 2 * kTile, 0);
    softmax_in_rows(worker, pass, first, points, z, at, exponentials);
    const float change = store_marginals(pass, first, points, at, exponentials);
    if (pass < task_.iterations) {
      if (reduced_scores_.size() > 0) subtract_own(first, points, at.rows, exponentials);
      send(first, points, at.rows, exponentials);
    }
    return change;
  }

  static bool has_own(const std::vector<Coupling>& couplings) {
    return std::any_of(couplings.begin(), couplings.end(), [](const Coupling& each) { return each.own != nullptr; });
  }

  // Scores from which the sum of messages starts.
  const float* scores_of(int pass, std::int64_t first) const {
    return (pass > 0 && reduced_scores_.size() > 0 ? reduced_scores_ : score_rows_).data() + first * channels_.width;
  }

  void store_scores(std::int64_t first, int points, float* z) {
    float largest[kTile];
    load_tile(kernels_, tiling_, task_.order, task_.scores, first, points, z);
    prefetch_planes(task_.scores, tiling_, task_.order, first + kTile);
    kernels_.subtract_largest(z, tiling_.num_classes, largest);
    float* rows = score_rows_.data() + first * channels_.width;
    kernels_.to_rows(z, channels_.num_classes, rows);
    for_columns(channels_.num_classes, [&](int before, int row) {  // the padding has no exponentials
      for (int l = channels_.num_classes - before; l < row; ++l)
        for (int p = 0; p < kTile; ++p) rows[before * kTile + p * row + l] = -1e30f;
    });
    std::memcpy(last_scores_.data() + first, z + channels_.plane_floats(), kTile * sizeof(float));
  }

  // Planes of all classes from rows of all but the last, and the last.
  void to_all_planes(const float* rows, const float* last, float* planes) const {
    kernels_.to_planes(rows, channels_.num_classes, false, planes);
    std::memcpy(planes + channels_.plane_floats(), last, kTile * sizeof(float));
  }

  // f + Σ_m K̂_m δ μ_m of all classes but the last, in `rows` or in score_rows_
  const float* scores_and_messages(const Worker& worker, int pass, std::int64_t first, int points, float* rows) {
    const float* sum = scores_of(pass, first);
    for (std::size_t m = 0; pass > 0 && m < couplings_.size(); ++m) {
      corners(m, first, points).slice(slot_rows(worker, m), couplings_[m].after, couplings_[m].mu[0], sum, rows);
      sum = rows;
    }
    return sum;
  }

  // Writes marginals and their logarithms to the caller's arrays.
  void show(std::int64_t first, int points, const float* z, const Tile& at) const {
    if (!task_.marginals && !task_.log_marginals) return;
    to_all_planes(z, last_scores_.data() + first, at.z);
    if (task_.log_marginals) {
      std::memcpy(at.more, at.z, tiling_.plane_floats() * sizeof(float));
      kernels_.log_softmax(at.more, tiling_.num_classes);
      store_tile(kernels_, tiling_, task_.order, at.more, first, points, task_.log_marginals);
    }
    if (!task_.marginals) return;
    kernels_.softmax(at.z, tiling_.num_classes);
    store_tile(kernels_, tiling_, task_.order, at.z, first, points, task_.marginals);
  }

  void softmax_in_rows(const Worker& worker, int pass, std::int64_t first, int points, const float* z, const Tile& at,
                       Exponentials& exponentials) {
    std::uint8_t& out_of_range = out_of_range_[first / kTile];
    const bool starts = pass == 0 && task_.start;
    if (!starts && !out_of_range) {
      if (take_exponentials(first, points, z, at.rows, exponentials)) return;
      out_of_range = true;
      z = scores_and_messages(worker, pass, first, points, at.rows);
    }
    if (starts) {
      load_tile(kernels_, tiling_, task_.order, task_.start, first, points, at.z);
    } else {
      to_all_planes(z, last_scores_.data() + first, at.z);
      kernels_.softmax(at.z, tiling_.num_classes);
    }
    kernels_.to_rows(at.z, channels_.num_classes, at.rows);
    std::memcpy(exponentials.last, at.z + channels_.plane_floats(), sizeof exponentials.last);
    std::fill_n(exponentials.inverse, kTile, 1.0f);
  }

  // exp(z) and the inverse of its sums, without subtracting the maximum, which would be a reduction across rows.
  // Returns false if exponentials exceed their range.
  bool take_exponentials(std::int64_t first, int points, const float* z, float* rows,
                         Exponentials& exponentials) const {
    float largest = min_exponent;
    kernels_.exponentials(last_scores_.data() + first, kTile, exponentials.last);
    std::memcpy(exponentials.inverse, exponentials.last, sizeof exponentials.inverse);
    for_columns(channels_.num_classes, [&](int before, int row) {
      const int at = before * kTile;
      largest = std::max(largest, kernels_.exponentials(z + at, points * row, rows + at));
    });
    prefetch_scores(first + 2 * kTile, 1);
    for (int block = 0; block < channels_.blocks(); ++block)
      kernels_.add_rows[row_kind(channels_.block_row(block))](
          Columns<const float>::of(rows + block * max_row * kTile, kTile), points, exponentials.inverse);
    const float least = kernels_.invert(exponentials.inverse, points);
    return largest <= max_exponent && least >= min_sum;
  }

  // Returns the change of marginals if it is needed.
  float store_marginals(int pass, std::int64_t first, int points, const Tile& at, const Exponentials& exponentials) {
    float* states = state_of(tiling_, pass, first);
    if (!states && !shows_changes()) return 0;
    float* q = states ? states : at.z;
    to_all_planes(at.rows, exponentials.last, at.z);
    kernels_.scale(at.z, exponentials.inverse, tiling_.num_classes, q);
    return last_q_.replace(kernels_, tiling_, pass, first, points, q);
  }

  // reduced scores = f - Σ_m μ_m own_m δ
  void subtract_own(std::int64_t first, int points, const float* rows, const Exponentials& exponentials) {
    float own[kTile] = {}, factor[kTile], shift[kTile];
    for (const Coupling& coupling : couplings_)
      for (int p = 0; coupling.own && p < points; ++p) own[p] -= coupling.mu[0] * coupling.own[first + p];
    kernels_.weigh(own, exponentials.inverse, exponentials.last, points, factor, shift);
    const std::int64_t at = first * channels_.width;
    for (int block = 0; block < channels_.blocks(); ++block) {
      const std::int64_t here = block * max_row * kTile;
      kernels_.add_scaled[row_kind(channels_.block_row(block))](
          Columns<const float>::of(score_rows_.data() + at + here, kTile), Columns<const float>::of(rows + here, kTile),
          factor, shift, points, Columns<float>::of(reduced_scores_.data() + at + here, kTile));
    }
  }

  // Splats δ to all lattices.
  void send(std::int64_t first, int points, const float* rows, const Exponentials& exponentials) {
    float factor[kTile], shift[kTile];
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      kernels_.weigh(couplings_[m].before + first, exponentials.inverse, exponentials.last, points, factor, shift);
      corners(m, first, points).splat(rows, factor, shift, chunk_sums_[m].sums());
      if (m < 2) prefetch_scores(first + 2 * kTile, 2 + static_cast<int>(m));
    }
  }

  // Prefetches scores of the tile after the next in four parts with work between them, since a processor stalls if too
  // many cache lines are in flight.
  void prefetch_scores(std::int64_t first, int part) const {
    if (first >= tiling_.points) return;
    const int floats = kTile * channels_.width / 4;
    prefetch(score_rows_.data() + first * channels_.width + part * floats, floats);
    if (reduced_scores_.size() > 0) prefetch(reduced_scores_.data() + first * channels_.width + part * floats, floats);
  }

  const Tiling& tiling_;
  // Scores minus the largest of each point: tiles in rows of all classes but the last, and (tiles, kTile) of the last.
  Buffer<float> score_rows_, last_scores_;
  Buffer<float> reduced_scores_;            // like score_rows_, without the messages of pixels to themselves
  std::vector<std::uint8_t> out_of_range_;  // (tiles): whether exponentials exceeded their range in some pass
  LastMarginals last_q_;
  std::deque<Buffer<float>> tiles_;
};

}  // namespace densefield
