#include "mean_field.hpp"

#include <memory>
#include <stdexcept>

#include "score_rows.hpp"
#include "streaming.hpp"
#include "two_labels.hpp"

namespace densefield {

Tiling::Tiling(const std::vector<Coupling>& couplings, std::int64_t points, int labels)
    : points(points), labels(labels), width(row_width(labels)), unit_points(64 * kTile) {
  for (const Coupling& coupling : couplings) {
    const Lattice& lattice = coupling.filter->lattice();
    if (lattice.points != points) throw std::invalid_argument("a lattice is for another number of points");
    if (points > 0) unit_points = std::max(&coupling == couplings.data() ? 0 : unit_points, lattice.chunk_points);
  }
  for (const Coupling& coupling : couplings)
    if (points > 0 && unit_points % coupling.filter->lattice().chunk_points != 0)
      throw std::logic_error("chunks of different lattices do not fit into each other");
}

namespace {

// What rows of scores do for.
bool asks_for_potts(const std::vector<Coupling>& couplings, const Inference& task) {
  return task.marginals && std::all_of(couplings.begin(), couplings.end(), [](const Coupling& each) { return each.is_plain(); });
}

class AllLabels final : public Updates {
 public:
  AllLabels(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task,
            const TileKernels& kernels, int threads)
      : Updates(couplings, tiling, task, kernels, threads), tiling_(tiling), remembers_(shows_changes()) {
    for (const Coupling& coupling : couplings) remembers_ |= coupling.own != nullptr;
    if (remembers_) state_ = Buffer<float>(static_cast<std::size_t>(tiling.state_floats()));
    in_rows_ = asks_for_potts(couplings, task);
    if (task.rows && !in_rows_) throw std::invalid_argument("rows of scores do for marginals of Potts kernels alone");
    if (in_rows_) {
      if (!task.rows) kept_scores_ = Buffer<float>(static_cast<std::size_t>(score_floats(tiling)));
      scores_ = task.rows ? task.rows : kept_scores_.data();
      leaves_range_.assign(static_cast<std::size_t>(tiling.tiles()), 0);
    }
    for (int worker = 0; worker < threads; ++worker) {
      tiles_.emplace_back(static_cast<std::size_t>(2 * tiling.plane_floats() + kTile * tiling.width));
      // Points past the last are computed too, from numbers whatever they are.
      std::fill_n(tiles_.back().data(), tiles_.back().size(), 0.0f);
    }
  }

 private:
  // A worker's memory for one tile: two of planes, one of rows.
  struct Tile {
    float *z, *message, *rows;
  };

  float tile_pass(const Worker& worker, int pass, std::int64_t first, int points) override {
    float* z = tiles_[worker.index].data();
    const Tile at{z, z + tiling_.plane_floats(), z + 2 * tiling_.plane_floats()};
    return in_rows_ ? rows_pass(pass, first, points, at) : planes_pass(pass, first, points, at);
  }

  float planes_pass(int pass, std::int64_t first, int points, const Tile& at) {
    load_scores(first, points, at.z);
    if (pass > 0) receive(first, points, last_of(first), at);
    show_logarithms(pass, first, points, at);
    if (pass == task_.iterations && !task_.marginals && !remembers_) return 0;
    if (pass == 0 && task_.start)
      load(task_.start, first, points, at.z);
    else
      kernels_.softmax(at.z, tiling_.labels);
    if (task_.marginals && may_be_last(pass)) store(at.z, first, points, task_.marginals);
    if (float* kept = kept_of(pass, first)) copy_away(at.z, tiling_.plane_floats(), kept);
    const float change = remember(pass, first, points, at.z);
    if (pass == task_.iterations) return change;
    kernels_.to_rows(at.z, tiling_.labels, tiling_.width, at.rows);
    for (std::size_t m = 0; m < couplings_.size(); ++m)
      Corners(couplings_[m], tiling_, kernels_, first, points)
          .spread(at.rows, couplings_[m].before + first, locals_[m].sums());
    return change;
  }

  void load_scores(std::int64_t first, int points, float* z) const {
    load(task_.scores, first, points, z);
    fetch_planes(task_.scores, tiling_, task_.walk, first + kTile);
  }

  void load(const float* array, std::int64_t first, int points, float* planes) const {
    load_tile(kernels_, tiling_, task_.walk, array, first, points, planes);
  }
  void store(const float* planes, std::int64_t first, int points, float* array) const {
    store_tile(kernels_, tiling_, task_.walk, planes, first, points, array);
  }

  void show_logarithms(int pass, std::int64_t first, int points, const Tile& at) const {
    if (!task_.log_marginals || !may_be_last(pass)) return;
    std::memcpy(at.message, at.z, tiling_.plane_floats() * sizeof(float));
    kernels_.log_softmax(at.message, tiling_.labels);
    store(at.message, first, points, task_.log_marginals);
  }

  // Where marginals of this pass are to be kept, or null.
  float* kept_of(int pass, std::int64_t first) const {
    if (!task_.kept || pass == task_.iterations) return nullptr;
    return task_.kept + pass * tiling_.state_floats() + first / kTile * tiling_.plane_floats();
  }
  float* last_of(std::int64_t first) {
    return remembers_ ? state_.data() + first / kTile * tiling_.plane_floats() : nullptr;
  }

  // Returns by how much marginals changed, where that is of interest.
  float remember(int pass, std::int64_t first, int points, const float* q) {
    float* last = last_of(first);
    if (!last) return 0;
    const float change = pass > 0 ? kernels_.distance(q, last, tiling_.labels, points) : 0.0f;
    std::memcpy(last, q, tiling_.plane_floats() * sizeof(float));
    return change;
  }

  // The same in rows as far as may be, where all kernels are Potts and marginals are asked for. Whoever asks for their
  // logarithms alone differentiates them, and is served by planes with and without those that are kept for the way back.
  float rows_pass(int pass, std::int64_t first, int points, const Tile& at) {
    if (pass == 0 && !task_.rows) keep_scores(first, points, at.z);
    // Where rows of an image follow each other no more, the processor does not foresee what will be written next.
    if (pass == task_.iterations && task_.walk) fetch_planes(task_.marginals, tiling_, task_.walk, first + kTile);
    const float* z = scores_and_messages(pass, first, points, at.rows);
    if (may_be_last(pass)) {
      kernels_.to_planes(z, tiling_.width, tiling_.labels, false, at.z);
      show_logarithms(pass, first, points, at);
      kernels_.softmax(at.z, tiling_.labels);
      store(at.z, first, points, task_.marginals);
    }
    if (pass == task_.iterations && !remembers_) return 0;
    float factor[kTile], inverse[kTile] = {};
    fetch_scores(first + kTile, 0);
    softmax_in_rows(pass, first, points, z, at, inverse);
    float change = 0;
    float* kept = kept_of(pass, first);
    if (kept || remembers_) {
      float* q = kept ? kept : at.z;
      kernels_.to_planes(at.rows, tiling_.width, tiling_.labels, false, at.z);
      kernels_.scale(at.z, inverse, tiling_.labels, q);
      change = remember(pass, first, points, q);
    }
    if (pass == task_.iterations) return change;
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      for (int p = 0; p < points; ++p) factor[p] = couplings_[m].before[first + p] * inverse[p];
      Corners(couplings_[m], tiling_, kernels_, first, points).spread(at.rows, factor, locals_[m].sums());
      if (m < 2) fetch_scores(first + kTile, 2 + static_cast<int>(m));
    }
    return change;
  }

  void keep_scores(std::int64_t first, int points, float* z) {
    float largest[kTile];
    load_scores(first, points, z);
    to_score_rows(kernels_, tiling_, z, largest, kept_scores_.data() + first * tiling_.width);
  }

  // f + Σ_m K̂_m q μ_m, in `rows` or in scores_
  const float* scores_and_messages(int pass, std::int64_t first, int points, float* rows) {
    const float* sum = scores_ + first * tiling_.width;
    for (std::size_t m = 0; pass > 0 && m < couplings_.size(); ++m) {
      Corners(couplings_[m], tiling_, kernels_, first, points)
          .collect(fields_[m].rows(), couplings_[m].after, couplings_[m].mu[0], sum, rows);
      sum = rows;
    }
    return sum;
  }

  // Marginals are at.rows times `inverse`, a number for each point.
  void softmax_in_rows(int pass, std::int64_t first, int points, const float* z, const Tile& at, float* inverse) {
    std::uint8_t& leaves_range = leaves_range_[first / kTile];
    const bool starts = pass == 0 && task_.start;
    if (!starts && !leaves_range) {
      if (divide_powers(first, points, z, at.rows, inverse)) return;
      leaves_range = true;
      z = scores_and_messages(pass, first, points, at.rows);
    }
    if (starts) {
      load(task_.start, first, points, at.z);
    } else {
      kernels_.to_planes(z, tiling_.width, tiling_.labels, false, at.z);
      kernels_.softmax(at.z, tiling_.labels);
    }
    kernels_.to_rows(at.z, tiling_.labels, tiling_.width, at.rows);
    std::fill_n(inverse, points, 1.0f);
  }

  // exp(z) and one over its sums, without a maximum taken away: that would be a passage across rows. False where messages
  // are so large that powers leave the range of float32.
  bool divide_powers(std::int64_t first, int points, const float* z, float* rows, float* inverse) const {
    const float largest = kernels_.powers(z, points * tiling_.width, rows);
    fetch_scores(first + kTile, 1);
    std::fill_n(inverse, points, 0.0f);
    for (int block = 0; block < tiling_.blocks(); ++block)
      kernels_.add_rows[row_kind(tiling_.block_row(block))](rows + block * max_row, tiling_.width, points, inverse);
    const float least = kernels_.invert(inverse, points);
    return largest <= most_power && least >= 1e-8f;  // what is below exp(least_power) is nothing beside the least
  }

  // The next tile's scores in four parts, with work between them: a processor waits where more than some dozen lines of
  // memory are on their way.
  void fetch_scores(std::int64_t first, int part) const {
    if (first >= tiling_.points) return;
    const int floats = kTile * tiling_.width / 4;
    fetch(scores_ + first * tiling_.width + part * floats, floats);
  }

  // z += Σ_m K̂_m q μ_mᵀ, with q in `last` where it is needed
  void receive(std::int64_t first, int points, const float* last, const Tile& at) {
    bool plain = false;
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      const Coupling& coupling = couplings_[m];
      if (!coupling.is_plain()) continue;
      Corners(coupling, tiling_, kernels_, first, points)
          .collect(fields_[m].rows(), coupling.after, coupling.mu[0], plain ? at.rows : nullptr, at.rows);
      plain = true;
    }
    if (plain) kernels_.to_planes(at.rows, tiling_.width, tiling_.labels, true, at.z);
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      const Coupling& coupling = couplings_[m];
      if (coupling.is_plain()) continue;
      Corners(coupling, tiling_, kernels_, first, points).collect(fields_[m].rows(), coupling.after, 1, nullptr, at.rows);
      kernels_.to_planes(at.rows, tiling_.width, tiling_.labels, false, at.message);
      if (coupling.own) kernels_.take_own(coupling.own + first, last, tiling_.labels, points, at.message);
      kernels_.mix(at.message, coupling.mu, coupling.rank, false, tiling_.labels, at.z);
    }
  }

  const Tiling& tiling_;
  std::deque<Buffer<float>> tiles_;
  Buffer<float> state_;        // q of the last pass
  Buffer<float> kept_scores_;  // (tiles, kTile, width), unless given as rows
  const float* scores_ = nullptr;           // the same, whose ever they are
  std::vector<std::uint8_t> leaves_range_;  // (tiles): whether powers of a tile did, in this pass or an earlier one
  bool remembers_;
  bool in_rows_;
};

}  // namespace

int mean_field(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task,
               const TileKernels& kernels, int threads) {
  if (tiling.points == 0) return 0;
  threads = worth_starting(threads, tiling);
  const Tiling one(couplings, tiling.points, 1);
  std::unique_ptr<Updates> updates;
  if (tiling.labels == 2 && asks_for_potts(couplings, task) && !task.kept)
    updates = std::make_unique<TwoLabels>(couplings, tiling, one, task, kernels, threads);
  else
    updates = std::make_unique<AllLabels>(couplings, tiling, task, kernels, threads);
  parallel(threads, [&](const Worker& worker) { updates->run(worker); });
  return updates->steps();
}

}  // namespace densefield
