#include "mean_field.hpp"

#include <deque>
#include <stdexcept>

#include "mean_field_pass.hpp"

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

class Loop {
 public:
  Loop(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task, const TileKernels& kernels,
       int threads)
      : couplings_(couplings), tiling_(tiling), task_(task), kernels_(kernels), changes_(threads, 0.0f) {
    for (const Coupling& coupling : couplings) {
      fields_.emplace_back(coupling, tiling, 1);
      locals_.emplace_back(coupling, tiling, 1);
      remembers_ |= coupling.own != nullptr;
    }
    remembers_ |= task.residuals != nullptr || task.tolerance >= 0;
    if (remembers_) state_ = Buffer<float>(static_cast<std::size_t>(tiling.state_floats()));
    in_rows_ = !remembers_ && !task.start && !task.kept && !task.log_marginals && task.iterations > 0;
    for (const Coupling& coupling : couplings) in_rows_ &= coupling.is_plain();
    if (in_rows_) {
      scores_ = Buffer<float>(static_cast<std::size_t>(tiling.tiles() * kTile * tiling.width));
      leaves_range_.assign(static_cast<std::size_t>(tiling.tiles()), 0);
    }
    for (int pass = 0; pass <= task.iterations; ++pass) queues_.emplace_back(tiling.units());
    for (int worker = 0; worker < threads; ++worker) {
      tiles_.emplace_back(static_cast<std::size_t>(2 * tiling.plane_floats() + kTile * tiling.width));
      // Points past the last are computed too, from numbers whatever they are.
      std::fill_n(tiles_.back().data(), tiles_.back().size(), 0.0f);
    }
  }

  void run(const Worker& worker) {
    for (int pass = 0;; ++pass) {
      points_pass(worker, pass);
      worker.sync();
      if (is_done(worker, pass)) return;
      lattice_pass(worker);
      worker.sync();
    }
  }

  int steps() const { return steps_; }

 private:
  // Pass t takes the messages of q^(t-1) in and sends those of q^t out.
  void points_pass(const Worker& worker, int pass) {
    float change = 0;
    std::int64_t unit;
    while (queues_[pass].next(unit)) {
      if (pass < task_.iterations)
        for (Local& local : locals_) local.clear(unit, 1);
      if (pass > 0)
        for (std::size_t m = 0; m < couplings_.size(); ++m)
          fetch_rows(couplings_[m].filter->lattice(), tiling_, unit, fields_[m].rows());
      for_tiles(tiling_, unit, [&](std::int64_t first, int points) {
        change = std::max(change, tile_pass(worker, pass, first, points));
      });
    }
    changes_[worker.index] = change;
  }

  float tile_pass(const Worker& worker, int pass, std::int64_t first, int points) {
    float* z = tiles_[worker.index].data();
    float* message = z + tiling_.plane_floats();
    float* rows = message + tiling_.plane_floats();
    float* last = remembers_ ? state_.data() + first / kTile * tiling_.plane_floats() : nullptr;
    if (pass == 0 || !in_rows_) {
      kernels_.load(task_.scores + first, tiling_.points, tiling_.labels, points, z);
      fetch_planes(task_.scores, tiling_, first + kTile);
    }
    if (in_rows_) {
      if (pass == 0) keep_scores(first, z);
      if (pass < task_.iterations) return rows_pass(pass, first, points, z, rows);
      kernels_.to_planes(scores_and_messages(pass, first, points, rows), tiling_.width, tiling_.labels, false, z);
    } else if (pass > 0) {
      receive(first, points, last, message, rows, z);
    }
    float change = 0;
    const bool may_be_last = pass == task_.iterations || task_.tolerance >= 0;
    if (task_.log_marginals && may_be_last) {
      std::memcpy(message, z, tiling_.plane_floats() * sizeof(float));
      kernels_.log_softmax(message, tiling_.labels);
      kernels_.store(message, tiling_.labels, points, task_.log_marginals + first, tiling_.points);
      if (pass == task_.iterations && !task_.marginals && !last) return change;
    }
    if (pass == 0 && task_.start)
      kernels_.load(task_.start + first, tiling_.points, tiling_.labels, points, z);
    else
      kernels_.softmax(z, tiling_.labels);
    if (task_.marginals && may_be_last) kernels_.store(z, tiling_.labels, points, task_.marginals + first, tiling_.points);
    if (last) {
      if (pass > 0) change = kernels_.distance(z, last, tiling_.labels, points);
      std::memcpy(last, z, tiling_.plane_floats() * sizeof(float));
    }
    if (pass == task_.iterations) return change;
    if (task_.kept)
      std::memcpy(task_.kept + pass * tiling_.state_floats() + first / kTile * tiling_.plane_floats(), z,
                  tiling_.plane_floats() * sizeof(float));
    kernels_.to_rows(z, tiling_.labels, tiling_.width, rows);
    for (std::size_t m = 0; m < couplings_.size(); ++m)
      Corners(couplings_[m], tiling_, kernels_, first, points).spread(rows, couplings_[m].before + first, locals_[m].sums());
    return change;
  }

  // Where nothing but the last marginals is asked for, a pass stays in rows. The scores are kept in them, less each
  // point's largest, which marginals do not depend on; padding is as good as minus infinity.
  void keep_scores(std::int64_t first, float* z) {
    float* scores = scores_.data() + first * tiling_.width;
    kernels_.take_largest(z, tiling_.labels);
    kernels_.to_rows(z, tiling_.labels, tiling_.width, scores);
    for (int p = 0; p < kTile; ++p)
      for (int l = tiling_.labels; l < tiling_.width; ++l) scores[p * tiling_.width + l] = -1e30f;
  }

  // f + Σ_m K̂_m q μ_m, in `rows` or in scores_
  const float* scores_and_messages(int pass, std::int64_t first, int points, float* rows) {
    const float* sum = scores_.data() + first * tiling_.width;
    for (std::size_t m = 0; pass > 0 && m < couplings_.size(); ++m) {
      Corners(couplings_[m], tiling_, kernels_, first, points)
          .collect(fields_[m].rows(), couplings_[m].after, couplings_[m].mu[0], sum, rows);
      sum = rows;
    }
    return sum;
  }

  // Marginals as rows and what to multiply them by.
  float rows_pass(int pass, std::int64_t first, int points, float* z, float* rows) {
    const float* sum = scores_and_messages(pass, first, points, rows);
    float factor[kTile], inverse[kTile];
    fetch_scores(first + kTile, 0);
    std::uint8_t& leaves_range = leaves_range_[first / kTile];
    if (!leaves_range && !divide_powers(first, points, sum, rows, inverse)) {
      leaves_range = true;
      sum = scores_and_messages(pass, first, points, rows);
    }
    if (leaves_range) {
      kernels_.to_planes(sum, tiling_.width, tiling_.labels, false, z);
      kernels_.softmax(z, tiling_.labels);
      kernels_.to_rows(z, tiling_.labels, tiling_.width, rows);
      std::fill_n(inverse, points, 1.0f);
    }
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      for (int p = 0; p < points; ++p) factor[p] = couplings_[m].before[first + p] * inverse[p];
      Corners(couplings_[m], tiling_, kernels_, first, points).spread(rows, factor, locals_[m].sums());
      if (m < 2) fetch_scores(first + kTile, 2 + static_cast<int>(m));
    }
    return 0;
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
    fetch(scores_.data() + first * tiling_.width + part * floats, floats);
  }

  // z += Σ_m K̂_m q μ_mᵀ, with q in `last` where it is needed
  void receive(std::int64_t first, int points, const float* last, float* message, float* rows, float* z) {
    bool plain = false;
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      const Coupling& coupling = couplings_[m];
      if (!coupling.is_plain()) continue;
      Corners(coupling, tiling_, kernels_, first, points)
          .collect(fields_[m].rows(), coupling.after, coupling.mu[0], plain ? rows : nullptr, rows);
      plain = true;
    }
    if (plain) kernels_.to_planes(rows, tiling_.width, tiling_.labels, true, z);
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      const Coupling& coupling = couplings_[m];
      if (coupling.is_plain()) continue;
      Corners(coupling, tiling_, kernels_, first, points).collect(fields_[m].rows(), coupling.after, 1, nullptr, rows);
      kernels_.to_planes(rows, tiling_.width, tiling_.labels, false, message);
      if (coupling.own) kernels_.take_own(coupling.own + first, last, tiling_.labels, points, message);
      kernels_.mix(message, coupling.mu, coupling.rank, false, tiling_.labels, z);
    }
  }

  void lattice_pass(const Worker& worker) {
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      fields_[m].gather(worker, locals_[m].sums(), couplings_[m].magnitude, 0);
      fields_[m].blur(worker, false, 0);
    }
  }

  // All workers answer alike: changes are written before a barrier, and again only after the next.
  bool is_done(const Worker& worker, int pass) {
    float change = 0;
    for (int other = 0; other < worker.count; ++other) change = std::max(change, changes_[other]);
    if (worker.index == 0) {
      steps_ = pass;
      if (task_.residuals && pass > 0) task_.residuals[pass - 1] = change;
    }
    return pass == task_.iterations || (pass > 0 && change <= task_.tolerance);
  }

  const std::vector<Coupling>& couplings_;
  const Tiling& tiling_;
  const Inference& task_;
  const TileKernels& kernels_;
  std::deque<Field> fields_;
  std::deque<Local> locals_;
  std::deque<Queue> queues_;
  std::deque<Buffer<float>> tiles_;
  std::vector<float> changes_;
  Buffer<float> state_;   // q of the last pass
  Buffer<float> scores_;  // (tiles, kTile, width)
  std::vector<std::uint8_t> leaves_range_;  // (tiles): whether powers of a tile did, in this pass or an earlier one
  bool remembers_ = false;
  bool in_rows_ = false;
  int steps_ = 0;
};

}  // namespace

int mean_field(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task,
               const TileKernels& kernels, int threads) {
  if (tiling.points == 0) return 0;
  threads = worth_starting(threads, tiling);
  Loop loop(couplings, tiling, task, kernels, threads);
  parallel(threads, [&](const Worker& worker) { loop.run(worker); });
  return loop.steps();
}

}  // namespace densefield
