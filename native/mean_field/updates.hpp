// The iterations of mean field over points and lattices; subclasses define the update of a tile.
#pragma once

#include <deque>

#include "mean_field/tiles.hpp"

namespace densefield {

// Marginals of the previous pass, if changes are needed.
class LastMarginals {
 public:
  LastMarginals(const Tiling& tiling, bool wanted)
      : state_(wanted ? static_cast<std::size_t>(tiling.state_floats()) : 0) {}

  // A tile of them in planes, or null.
  float* of(const Tiling& tiling, std::int64_t first) {
    return state_.size() > 0 ? state_.data() + first / kTile * tiling.plane_floats() : nullptr;
  }

  // Replaces a tile and returns the largest change.
  float replace(const TileKernels& kernels, const Tiling& tiling, int pass, std::int64_t first, int points,
                const float* q) {
    float* last = of(tiling, first);
    if (!last) return 0;
    const float change = pass > 0 ? kernels.distance(q, last, tiling.num_classes, points) : 0.0f;
    std::memcpy(last, q, tiling.plane_floats() * sizeof(float));
    return change;
  }

 private:
  Buffer<float> state_;
};

// The larger of two changes, or NaN if either is: NaN never counts as converged.
inline float larger_change(float a, float b) { return a > b || a != a ? a : b; }

class Updates {
 public:
  // `channels` is the tiling of the filtered channels.
  Updates(const std::vector<Coupling>& couplings, const Tiling& channels, const Inference& task,
          const TileKernels& kernels, int threads)
      : couplings_(couplings),
        task_(task),
        kernels_(kernels),
        channels_(channels),
        units_(channels.units(), threads),
        changes_(threads, 0.0f) {
    for (const Coupling& coupling : couplings) {
      fields_.emplace_back(coupling, channels, 1);
      chunk_sums_.emplace_back(coupling, channels, 1);
    }
    for (int worker = 0; worker < threads; ++worker)
      for (const Coupling& coupling : couplings) slot_rows_.emplace_back(coupling, channels);
  }
  virtual ~Updates() = default;

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

 protected:
  // Pass t receives the messages of q^(t-1) and sends those of q^t; returns the largest change of a marginal.
  virtual float tile_pass(const Worker& worker, int pass, std::int64_t first, int points) = 0;

  bool may_be_last(int pass) const { return pass == task_.iterations || task_.tolerance >= 0; }
  // Whether the result of tile_pass() is used.
  bool shows_changes() const { return task_.residuals || task_.tolerance >= 0; }
  // Memory for the marginals of this pass, for the gradient, in planes, or null.
  float* state_of(const Tiling& tiling, int pass, std::int64_t first) const {
    if (!task_.states || pass == task_.iterations) return nullptr;
    return task_.states + pass * tiling.state_floats() + first / kTile * tiling.plane_floats();
  }

  // A tile in a kernel's lattice.
  Corners corners(std::size_t m, std::int64_t first, int points) const {
    return Corners(couplings_[m], channels_, kernels_, first, points);
  }

  // Rows of the unit that a worker processes.
  SlotRows& slot_rows(const Worker& worker, std::size_t m) { return slot_rows_[worker.index * couplings_.size() + m]; }

  const std::vector<Coupling>& couplings_;
  const Inference& task_;
  const TileKernels& kernels_;
  const Tiling& channels_;
  std::deque<Field> fields_;
  std::deque<ChunkSums> chunk_sums_;

 private:
  void points_pass(const Worker& worker, int pass) {
    float change = 0;
    units_.drain(worker, pass, [&](std::int64_t unit) {
      if (pass < task_.iterations)
        for (ChunkSums& local : chunk_sums_) local.clear(unit, 1);
      if (pass > 0)
        for (std::size_t m = 0; m < couplings_.size(); ++m) slot_rows(worker, m).pick(unit, fields_[m].rows());
      for_tiles(channels_, unit, [&](std::int64_t first, int points) {
        change = larger_change(change, tile_pass(worker, pass, first, points));
      });
    });
    changes_[worker.index] = change;
  }

  void lattice_pass(const Worker& worker) {
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      fields_[m].gather(worker, chunk_sums_[m].sums(), couplings_[m].magnitude, 0);
      fields_[m].blur(worker, false, 0);
    }
  }

  // Same answer for all workers: changes are written before a barrier, and again only after the next.
  bool is_done(const Worker& worker, int pass) {
    float change = 0;
    for (int other = 0; other < worker.count; ++other) change = larger_change(change, changes_[other]);
    if (worker.index == 0) {
      steps_ = pass;
      if (task_.residuals && pass > 0) task_.residuals[pass - 1] = change;
    }
    return pass == task_.iterations || (pass > 0 && change <= task_.tolerance);
  }

  std::deque<SlotRows> slot_rows_;  // (threads, couplings)
  PassQueues units_;
  std::vector<float> changes_;
  int steps_ = 0;
};

}  // namespace densefield
