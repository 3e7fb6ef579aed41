#include "mean_field/mean_field.hpp"

#include <memory>
#include <stdexcept>

#include "base/stream_copy.hpp"
#include "mean_field/convergent.hpp"
#include "mean_field/potts.hpp"

namespace densefield {

Tiling::Tiling(const std::vector<Coupling>& couplings, std::int64_t all_points, int all_classes)
    : points(all_points), num_classes(all_classes), width(row_width(num_classes)), unit_points(64 * kTile) {
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

// Updates for any compatibility: a tile is transposed between planes and rows in every iteration.
class GeneralUpdates final : public Updates {
 public:
  GeneralUpdates(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task,
                 const TileKernels& kernels, int threads)
      : Updates(couplings, tiling, task, kernels, threads),
        tiling_(tiling),
        remembers_(shows_changes() || has_own(couplings)),
        last_q_(tiling, remembers_),
        programs_(couplings, tiling, kernels, threads) {
    for (int worker = 0; worker < threads; ++worker) {
      tiles_.emplace_back(static_cast<std::size_t>(2 * tiling.plane_floats() + kTile * tiling.width));
      // Points beyond the last are computed too, from any finite numbers.
      std::fill_n(tiles_.back().data(), tiles_.back().size(), 0.0f);
    }
  }

 private:
  // A worker's memory for one tile: two in planes, one in rows.
  struct Tile {
    float *z, *message, *rows;
  };

  // Whether the message is a multiple of what the lattice has, which is added to z in rows.
  bool is_plain(const Coupling& coupling) const { return coupling.is_potts() && (!coupling.own || task_.convergent); }

  static bool has_own(const std::vector<Coupling>& couplings) {
    return std::any_of(couplings.begin(), couplings.end(), [](const Coupling& each) { return each.own != nullptr; });
  }

  float tile_pass(const Worker& worker, int pass, std::int64_t first, int points) override {
    float* z = tiles_[worker.index].data();
    const Tile at{z, z + tiling_.plane_floats(), z + 2 * tiling_.plane_floats()};
    load_tile(kernels_, tiling_, task_.order, task_.scores, first, points, at.z);
    prefetch_planes(task_.scores, tiling_, task_.order, first + kTile);
    if (pass > 0) receive(worker, first, points, last_q_.of(tiling_, first), at);
    if (pass > 0 && minimises()) {
      programs_.solve(worker, first, points, at.z, last_q_.of(tiling_, first), at.message);
      std::memcpy(at.z, at.message, tiling_.plane_floats() * sizeof(float));
    }
    if (task_.log_marginals && may_be_last(pass)) {
      std::memcpy(at.message, at.z, tiling_.plane_floats() * sizeof(float));
      kernels_.log_softmax(at.message, tiling_.num_classes);
      store_tile(kernels_, tiling_, task_.order, at.message, first, points, task_.log_marginals);
    }
    if (pass == task_.iterations && !task_.marginals && !remembers_) return 0;
    if (pass == 0 && task_.start)
      load_tile(kernels_, tiling_, task_.order, task_.start, first, points, at.z);
    else
      kernels_.softmax(at.z, tiling_.num_classes);
    if (task_.marginals && may_be_last(pass))
      store_tile(kernels_, tiling_, task_.order, at.z, first, points, task_.marginals);
    if (float* states = state_of(tiling_, pass, first)) stream_copy(at.z, tiling_.plane_floats(), states);
    const float change = last_q_.replace(kernels_, tiling_, pass, first, points, at.z);
    if (pass == task_.iterations) return change;
    kernels_.to_rows(at.z, tiling_.num_classes, at.rows);
    for (std::size_t m = 0; m < couplings_.size(); ++m)
      corners(m, first, points).splat(at.rows, couplings_[m].before + first, zeros, chunk_sums_[m].sums());
    return change;
  }

  // Whether a step is more than the ordinary update.
  bool minimises() const { return task_.convergent && programs_.any(); }

  // z += Σ_m K̂_m q μ_mᵀ, with q in `last` if needed; convergent inference keeps the diagonal of K̂
  void receive(const Worker& worker, std::int64_t first, int points, const float* last, const Tile& at) {
    bool plain = false;
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      const Coupling& coupling = couplings_[m];
      if (!is_plain(coupling)) continue;
      corners(m, first, points)
          .slice(slot_rows(worker, m), coupling.after, coupling.mu[0], plain ? at.rows : nullptr, at.rows);
      plain = true;
    }
    if (plain) kernels_.to_planes(at.rows, tiling_.num_classes, true, at.z);
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      const Coupling& coupling = couplings_[m];
      if (is_plain(coupling)) continue;
      corners(m, first, points).slice(slot_rows(worker, m), coupling.after, 1, nullptr, at.rows);
      kernels_.to_planes(at.rows, tiling_.num_classes, false, at.message);
      if (coupling.own && !task_.convergent)
        kernels_.subtract_own(coupling.own + first, last, tiling_.num_classes, points, at.message);
      kernels_.mix(at.message, coupling.mu, coupling.rank, false, tiling_.num_classes, at.z);
    }
  }

  const Tiling& tiling_;
  bool remembers_;
  LastMarginals last_q_;
  SimplexPrograms programs_;
  std::deque<Buffer<float>> tiles_;
};

bool all_potts(const std::vector<Coupling>& couplings, const Tiling& tiling) {
  return tiling.num_classes > 1 &&
         std::all_of(couplings.begin(), couplings.end(), [](const Coupling& each) { return each.is_potts(); });
}

}  // namespace

int mean_field(const std::vector<Coupling>& couplings, const Tiling& tiling, const Inference& task,
               const TileKernels& kernels, int threads) {
  if (tiling.points == 0) return 0;
  threads = tiling.useful_threads(threads);
  const bool own = std::any_of(couplings.begin(), couplings.end(), [](const Coupling& each) { return each.own; });
  const bool potts = all_potts(couplings, tiling) && !(task.convergent && own);
  const Tiling all_but_last(couplings, tiling.points, std::max(tiling.num_classes - 1, 1));
  std::unique_ptr<Updates> updates;
  if (potts)
    updates = std::make_unique<PottsUpdates>(couplings, tiling, all_but_last, task, kernels, threads);
  else
    updates = std::make_unique<GeneralUpdates>(couplings, tiling, task, kernels, threads);
  parallel(threads, [&](const Worker& worker) { updates->run(worker); });
  return updates->steps();
}

}  // namespace densefield
