// Gradients of mean field (paper, Learning): g^(t-1) = q^(t-1) ⊙ (h - Σ_l q^(t-1) h) with h = Σ_m K̂_mᵀ g^t μ_m. In
// convergent inference K̂ has its diagonal, and from g^T to g^1 the adjoint of softmax is that of the programs, whose
// D = Σ_m own_m μ_m adds -own_m g^t·(q^t μ) to the loss' derivative.
#include <deque>
#include <memory>
#include <optional>

#include "lattice/vertex_moments.hpp"
#include "mean_field/convergent.hpp"
#include "mean_field/mean_field.hpp"
#include "mean_field/tiles.hpp"

namespace densefield {

namespace {

class Backward {
 public:
  Backward(const std::vector<Coupling>& couplings, const Tiling& tiling, const BackwardTask& task,
           const TileKernels& kernels, int threads)
      : couplings_(couplings),
        tiling_(tiling),
        task_(task),
        kernels_(kernels),
        units_(tiling.units(), threads),
        programs_(couplings, tiling, kernels, threads),
        minimises_(task.convergent && programs_.any()),
        g_(static_cast<std::size_t>(tiling.state_floats())) {
    for (std::size_t m = 0; m < couplings.size(); ++m) {
      sending_.emplace_back(couplings[m], tiling, arrays(m));
      chunk_sums_.emplace_back(couplings[m], tiling, arrays(m));
      mu_.emplace_back(task.gradients[m].mu ? tiling.units() * mu_count(m) : 0, 0.0);
      shapes_.push_back(
          with_shape(m) ? std::make_unique<ShapeFields>(couplings[m], tiling, arrays(m), wanted(m).moments) : nullptr);
      any_shape_ |= with_shape(m);
    }
    for (int worker = 0; worker < threads; ++worker) {
      tiles_.emplace_back(static_cast<std::size_t>(5 * tiling.plane_floats() + 2 * kTile * tiling.width));
      std::fill_n(tiles_.back().data(), tiles_.back().size(), 0.0f);  // points beyond the last are computed too
      for (const Coupling& coupling : couplings) slot_rows_.emplace_back(coupling, tiling);
    }
  }

  void run(const Worker& worker) {
    int pass = 0;
    for (const auto& shape : shapes_)
      if (shape && shape->moments) shape->moments->locate(worker);
    units_.drain(worker, pass++, [&](std::int64_t unit) { start(worker, unit); });
    for (int t = task_.iterations; t >= 1; --t) {
      worker.sync();
      for (std::size_t m = 0; m < couplings_.size(); ++m) gather_sent(worker, m);
      worker.sync();
      if (any_shape_) {
        units_.drain(worker, pass++, [&](std::int64_t unit) { send_marginals(worker, unit, t); });
        worker.sync();
        for (std::size_t m = 0; m < couplings_.size(); ++m)
          if (with_shape(m)) gather_received(worker, m);
        worker.sync();
      }
      units_.drain(worker, pass++, [&](std::int64_t unit) { backward_pass(worker, unit, t); });
    }
  }

  // Adds partial sums in a fixed order, after all workers have finished.
  void finish() {
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      sum_up(mu_[m], task_.gradients[m].mu, mu_count(m), couplings_[m].rank == 0);
      // Both sides contain the magnitude.
      if (shapes_[m] && shapes_[m]->moments)
        shapes_[m]->moments->finish(1.0 / couplings_[m].magnitude, wanted(m).moments);
    }
  }

 private:
  const CouplingGradients& wanted(std::size_t m) const { return task_.gradients[m]; }
  bool with_shape(std::size_t m) const { return wanted(m).moments || wanted(m).slopes; }
  bool with_slopes(std::size_t m) const { return wanted(m).slopes != nullptr; }
  int arrays(std::size_t m) const { return with_slopes(m) ? 1 + dimension(m) : 1; }
  int dimension(std::size_t m) const { return couplings_[m].filter->lattice().embedding.dimension; }
  std::int64_t mu_count(std::size_t m) const {
    return std::int64_t{tiling_.num_classes} * (couplings_[m].rank == 2 ? tiling_.num_classes : 1);
  }

  // Additional data for gradients by a kernel's shape or features.
  struct ShapeFields {
    Field receiving;              // like sending_, of q μᵀ
    Field sent, received, space;  // for moments: both before the blur, and working memory
    std::optional<VertexMoments> moments;

    ShapeFields(const Coupling& coupling, const Tiling& tiling, int arrays, bool with_moments)
        : receiving(coupling, tiling, arrays),
          sent(coupling, tiling, with_moments),
          received(coupling, tiling, with_moments),
          space(coupling, tiling, with_moments) {
      if (with_moments) moments.emplace(*coupling.filter);
    }
  };

  struct Tile {
    float *g, *h, *mixed, *one, *two, *rows, *other_rows;
  };
  Tile tile(const Worker& worker) {
    float* planes = tiles_[worker.index].data();
    const std::int64_t size = tiling_.plane_floats();
    float* rows = planes + 5 * size;
    return {planes,
            planes + size,
            planes + 2 * size,
            planes + 3 * size,
            planes + 4 * size,
            rows,
            rows + kTile * tiling_.width};
  }
  std::size_t plane_bytes() const { return tiling_.plane_floats() * sizeof(float); }
  float* g_of(std::int64_t first) { return g_.data() + first / kTile * tiling_.plane_floats(); }
  const float* q_of(std::int64_t first, int t) const {
    return task_.states + t * tiling_.state_floats() + first / kTile * tiling_.plane_floats();
  }
  Corners corners(std::size_t m, std::int64_t first, int points) const {
    return Corners(couplings_[m], tiling_, kernels_, first, points);
  }

  // Rows of the unit that a worker processes.
  SlotRows& slot_rows(const Worker& worker, std::size_t m) { return slot_rows_[worker.index * couplings_.size() + m]; }

  // Prefetches the planes of the next tile.
  void prefetch_next(const float* planes, std::int64_t first) const {
    if (first + kTile < tiling_.points) prefetch(planes + tiling_.plane_floats(), tiling_.plane_floats());
  }

  void clear_chunk_sums(std::int64_t unit) {
    for (std::size_t m = 0; m < couplings_.size(); ++m) chunk_sums_[m].clear(unit, arrays(m));
  }

  // g^T from the loss.
  void start(const Worker& worker, std::int64_t unit) {
    const Tile at = tile(worker);
    clear_chunk_sums(unit);
    for_tiles(tiling_, unit, [&](std::int64_t first, int points) {
      load_tile(kernels_, tiling_, task_.order, task_.cotangent, first, points, at.one);
      load_tile(kernels_, tiling_, task_.order, task_.log_marginals, first, points, at.two);
      if (minimises_ && task_.iterations > 0) {
        kernels_.softmax(at.two, tiling_.num_classes);
        programs_.adjoint(worker, first, points, at.one, false, at.two, at.g);
        add_own_gradients(unit, first, points, at.two, at);
      } else {
        kernels_.log_softmax_adjoint(at.one, at.two, tiling_.num_classes, at.g);
      }
      store_tile(kernels_, tiling_, task_.order, at.g, first, points, task_.scores);
      if (task_.iterations > 0) send(at, first, points);
    });
  }

  // Stores g and splats it to every lattice.
  void send(const Tile& at, std::int64_t first, int points) {
    std::memcpy(g_of(first), at.g, plane_bytes());
    kernels_.to_rows(at.g, tiling_.num_classes, at.rows);
    for (std::size_t m = 0; m < couplings_.size(); ++m) splat(m, first, points, at.rows, couplings_[m].after);
  }

  // Splats a tile of rows, and if slopes are wanted the same times each feature.
  void splat(std::size_t m, std::int64_t first, int points, const float* rows, const float* factor) {
    const Corners at = corners(m, first, points);
    at.splat(rows, factor + first, zeros, chunk_sums_[m].sums());
    if (!with_slopes(m)) return;
    const int d = dimension(m);
    const float* x = wanted(m).features + first * d;
    for (int e = 0; e < d; ++e) {
      float scaled[kTile];
      for (int p = 0; p < points; ++p) scaled[p] = factor[first + p] * x[p * d + e];
      at.splat(rows, scaled, zeros, chunk_sums_[m].sums(1 + e));
    }
  }

  // Splats q^(t-1) μᵀ / weight() to the lattices whose shape or features need gradients.
  void send_marginals(const Worker& worker, std::int64_t unit, int t) {
    const Tile at = tile(worker);
    clear_chunk_sums(unit);
    for_tiles(tiling_, unit, [&](std::int64_t first, int points) {
      const float* in_rows = nullptr;  // the planes whose rows are in at.rows
      prefetch_next(q_of(first, t - 1), first);
      for (std::size_t m = 0; m < couplings_.size(); ++m) {
        if (!with_shape(m)) continue;
        const float* planes = mixed(m, q_of(first, t - 1), at);
        if (planes != in_rows || planes == at.mixed) kernels_.to_rows(planes, tiling_.num_classes, at.rows);
        in_rows = planes;
        splat(m, first, points, at.rows, couplings_[m].before);
      }
    });
  }

  // q μᵀ / weight(), which is q if μ is a number.
  const float* mixed(std::size_t m, const float* q, const Tile& at) const {
    if (couplings_[m].rank == 0) return q;
    std::memset(at.mixed, 0, plane_bytes());
    kernels_.mix(q, couplings_[m].mu, couplings_[m].rank, false, tiling_.num_classes, at.mixed);
    return at.mixed;
  }
  float weight(std::size_t m) const { return couplings_[m].rank == 0 ? *couplings_[m].mu : 1.0f; }

  void gather_sent(const Worker& worker, std::size_t m) {
    gather_and_blur(worker, m, sending_[m], wanted(m).moments ? &shapes_[m]->sent : nullptr, 1, true);
  }

  void gather_received(const Worker& worker, std::size_t m) {
    ShapeFields& shape = *shapes_[m];
    gather_and_blur(worker, m, shape.receiving, shape.moments ? &shape.received : nullptr, weight(m), false);
    if (!shape.moments) return;
    worker.sync();
    for (int block = 0; block < tiling_.blocks(); ++block) {
      const std::int64_t at = block * max_row * shape.space.vertices();
      shape.moments->add(worker, row_kind(tiling_.block_row(block)), shape.sent.rows() + at, sending_[m].rows() + at,
                         shape.received.rows() + at, shape.receiving.rows() + at, shape.space.rows() + at);
    }
  }

  // `plain`, if given, gets the values before the blur.
  void gather_and_blur(const Worker& worker, std::size_t m, Field& field, Field* plain, float factor, bool adjoint) {
    for (int e = 0; e < arrays(m); ++e) {
      field.gather(worker, chunk_sums_[m].sums(e), factor * couplings_[m].magnitude, e, e == 0 ? plain : nullptr);
      field.blur(worker, adjoint, e);
    }
  }

  // From g^t to g^(t-1).
  void backward_pass(const Worker& worker, std::int64_t unit, int t) {
    const Tile at = tile(worker);
    if (t > 1) clear_chunk_sums(unit);
    for (std::size_t m = 0; m < couplings_.size(); ++m) slot_rows(worker, m).pick(unit, sending_[m].rows());
    for_tiles(tiling_, unit, [&](std::int64_t first, int points) {
      const float* q = q_of(first, t - 1);
      const float* g = g_of(first);
      prefetch_next(q, first);
      std::memset(at.h, 0, plane_bytes());
      if (any_shape_) kernels_.to_rows(g, tiling_.num_classes, at.other_rows);
      for (std::size_t m = 0; m < couplings_.size(); ++m) {
        add_adjoint(worker, m, unit, first, points, q, g, at);
        if (with_shape(m)) add_shape_gradients(m, first, points, q, g, at);
      }
      if (any_shape_) prefetch_next(g, first);
      if (minimises_ && t > 1) {
        programs_.adjoint(worker, first, points, at.h, true, q, at.g);
        add_own_gradients(unit, first, points, q, at);
      } else {
        kernels_.softmax_adjoint(at.h, q, tiling_.num_classes, at.g);
      }
      prefetch_planes(task_.scores, tiling_, task_.order, first + kTile);
      add_tile(kernels_, tiling_, task_.order, at.g, first, points, task_.scores);
      if (t > 1) send(at, first, points);
    });
  }

  // The gradients through D of a program with the solution q, whose g is in at.g.
  void add_own_gradients(std::int64_t unit, std::int64_t first, int points, const float* q, const Tile& at) {
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      const Coupling& coupling = couplings_[m];
      if (!coupling.own) continue;
      if (wanted(m).mu) {
        std::memset(at.one, 0, plane_bytes());
        kernels_.subtract_own(coupling.own + first, at.g, tiling_.num_classes, points, at.one);
        kernels_.couple(at.one, q, coupling.rank, tiling_.num_classes, points, mu_[m].data() + unit * mu_count(m));
      }
      if (with_shape(m)) add_to_own(m, first, points, q, at.g, at);
    }
  }

  // own_i g_i·(q_i μᵀ)
  void add_to_own(std::size_t m, std::int64_t first, int points, const float* q, const float* g, const Tile& at) {
    float sums[kTile] = {};
    kernels_.dot(g, mixed(m, q, at), tiling_.num_classes, sums);
    for (int p = 0; p < points; ++p) wanted(m).own[first + p] += weight(m) * couplings_[m].own[first + p] * sums[p];
  }

  // h += K̂ᵀ g μ, and the gradients that follow from it.
  void add_adjoint(const Worker& worker, std::size_t m, std::int64_t unit, std::int64_t first, int points,
                   const float* q, const float* g, const Tile& at) {
    const Coupling& coupling = couplings_[m];
    corners(m, first, points).slice(slot_rows(worker, m), coupling.before, 1, nullptr, at.rows);
    kernels_.to_planes(at.rows, tiling_.num_classes, false, at.one);
    double* to_mu = wanted(m).mu ? mu_[m].data() + unit * mu_count(m) : nullptr;
    const bool dots_are_mu = to_mu && coupling.is_potts() && (!coupling.own || minimises_);
    if (with_shape(m) || dots_are_mu) {
      float sums[kTile] = {};
      kernels_.dot(at.one, mixed(m, q, at), tiling_.num_classes, sums);
      if (with_shape(m))
        for (int p = 0; p < points; ++p) wanted(m).received[first + p] += weight(m) * sums[p];
      if (dots_are_mu)
        for (int p = 0; p < points; ++p) *to_mu += sums[p];
    }
    if (coupling.own && !minimises_)
      kernels_.subtract_own(coupling.own + first, g, tiling_.num_classes, points, at.one);
    if (to_mu && !dots_are_mu) kernels_.couple(at.one, q, coupling.rank, tiling_.num_classes, points, to_mu);
    kernels_.mix(at.one, coupling.mu, coupling.rank, true, tiling_.num_classes, at.h);
  }

  // The message of q, for gradients by normalisation and shape; at.other_rows holds g in rows.
  void add_shape_gradients(std::size_t m, std::int64_t first, int points, const float* q, const float* g,
                           const Tile& at) {
    const Coupling& coupling = couplings_[m];
    const CouplingGradients& gradients = wanted(m);
    const Corners here = corners(m, first, points);
    Field& receiving = shapes_[m]->receiving;
    const std::int64_t stride = receiving.rows_stride();
    here.slice_slopes(receiving.rows(), stride, 1, coupling.after, 1, at.other_rows, gradients.sent + first);
    if (coupling.own && !minimises_) add_to_own(m, first, points, q, g, at);
    if (!gradients.slopes) return;
    const int d = dimension(m);
    float* slopes = gradients.slopes + first * d;
    here.slice_slopes(receiving.rows(1), stride, d, coupling.after, 1, at.other_rows, slopes);
    kernels_.to_rows(mixed(m, q, at), tiling_.num_classes, at.rows);
    here.slice_slopes(sending_[m].rows(1), stride, d, coupling.before, weight(m), at.rows, slopes);
  }

  static void sum_up(const std::vector<double>& parts, double* total, std::int64_t count, bool into_one) {
    if (!total) return;
    for (int i = 0; i < (into_one ? 1 : count); ++i) total[i] = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) total[into_one ? 0 : i % count] += parts[i];
  }

  const std::vector<Coupling>& couplings_;
  const Tiling& tiling_;
  const BackwardTask& task_;
  const TileKernels& kernels_;
  PassQueues units_;
  SimplexPrograms programs_;
  bool minimises_;
  Buffer<float> g_;  // tiles in planes
  std::deque<Field> sending_;
  std::deque<ChunkSums> chunk_sums_;
  std::deque<std::vector<double>> mu_;
  std::deque<std::unique_ptr<ShapeFields>> shapes_;  // null if no shape needs a gradient
  std::deque<Buffer<float>> tiles_;
  std::deque<SlotRows> slot_rows_;  // (threads, couplings)
  bool any_shape_ = false;
};

}  // namespace

void mean_field_backward(const std::vector<Coupling>& couplings, const Tiling& tiling, const BackwardTask& task,
                         const TileKernels& kernels, int threads) {
  if (tiling.points == 0) return;
  threads = tiling.useful_threads(threads);
  Backward backward(couplings, tiling, task, kernels, threads);
  parallel(threads, [&](const Worker& worker) { backward.run(worker); });
  backward.finish();
}

}  // namespace densefield
