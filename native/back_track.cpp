// Gradients back through the updates (paper, Learning): g^(t-1) = q^(t-1) ⊙ (h - Σ_l q^(t-1) h), h = Σ_m K̂_mᵀ g^t μ_m.
#include <deque>

#include "mean_field.hpp"
#include "mean_field_pass.hpp"

namespace densefield {

namespace {

class Backwards {
 public:
  Backwards(const std::vector<Coupling>& couplings, const Tiling& tiling, const BackTracking& task,
            const TileKernels& kernels, int threads)
      : couplings_(couplings),
        tiling_(tiling),
        task_(task),
        kernels_(kernels),
        g_(static_cast<std::size_t>(tiling.state_floats())) {
    for (std::size_t m = 0; m < couplings.size(); ++m) {
      sending_.emplace_back(couplings[m], tiling, with_slopes(m) ? 1 + dimension(m) : 1);
      receiving_.emplace_back(couplings[m], tiling, with_shape(m) ? 1 + dimension(m) : 0);
      locals_.emplace_back(couplings[m], tiling, with_shape(m) ? 1 + dimension(m) : 1);
      mu_.emplace_back(task.gradients[m].mu ? tiling.units() * mu_count(m) : 0, 0.0);
      moments_.emplace_back(with_shape(m) ? tiling.units() * dimension(m) * dimension(m) : 0, 0.0);
      shapes_ |= with_shape(m);
    }
    for (int pass = 0; pass <= 2 * task.iterations; ++pass) queues_.emplace_back(tiling.units());
    for (int worker = 0; worker < threads; ++worker)
      tiles_.emplace_back(static_cast<std::size_t>(7 * tiling.plane_floats() + 2 * kTile * tiling.width));
  }

  void run(const Worker& worker) {
    int pass = 0;
    for_units(pass++, [&](std::int64_t unit) { start(worker, unit); });
    for (int t = task_.iterations; t >= 1; --t) {
      worker.sync();
      for (std::size_t m = 0; m < couplings_.size(); ++m) gather_sent(worker, m);
      worker.sync();
      if (shapes_) {
        for_units(pass, [&](std::int64_t unit) { send_marginals(worker, unit, t); });
        worker.sync();
        for (std::size_t m = 0; m < couplings_.size(); ++m) gather_received(worker, m);
        worker.sync();
      }
      for_units(pass + 1, [&](std::int64_t unit) { step_back(worker, unit, t); });
      pass += 2;
    }
  }

  // Partial sums in their order, once all workers are done.
  void finish() {
    for (std::size_t m = 0; m < couplings_.size(); ++m) {
      sum_up(mu_[m], task_.gradients[m].mu, mu_count(m), couplings_[m].rank == 0);
      if (with_shape(m)) sum_up(moments_[m], task_.gradients[m].moments, dimension(m) * dimension(m), false);
    }
  }

 private:
  const CouplingGradients& wanted(std::size_t m) const { return task_.gradients[m]; }
  bool with_shape(std::size_t m) const { return wanted(m).moments != nullptr; }
  bool with_slopes(std::size_t m) const { return wanted(m).slopes != nullptr; }
  int dimension(std::size_t m) const { return couplings_[m].filter->lattice().embedding.dimension; }
  int mu_count(std::size_t m) const { return couplings_[m].rank == 2 ? tiling_.labels * tiling_.labels : tiling_.labels; }

  struct Tile {
    float *g, *q, *h, *message, *mixed, *one, *two, *rows, *other_rows;
  };
  Tile tile(const Worker& worker) {
    float* planes = tiles_[worker.index].data();
    const std::int64_t size = tiling_.plane_floats();
    return {planes,            planes + size,     planes + 2 * size, planes + 3 * size,
            planes + 4 * size, planes + 5 * size, planes + 6 * size, planes + 7 * size,
            planes + 7 * size + kTile * tiling_.width};
  }
  std::size_t plane_bytes() const { return tiling_.plane_floats() * sizeof(float); }
  float* g_of(std::int64_t first) { return g_.data() + first / kTile * tiling_.plane_floats(); }
  const float* q_of(std::int64_t first, int t) const {
    return task_.kept + t * tiling_.state_floats() + first / kTile * tiling_.plane_floats();
  }
  Corners corners(std::size_t m, std::int64_t first, int points) const {
    return Corners(couplings_[m], tiling_, kernels_, first, points);
  }

  template <class Task>
  void for_units(int pass, const Task& task) {
    std::int64_t unit;
    while (queues_[pass].next(unit)) task(unit);
  }

  void clear_locals(std::int64_t unit, bool marginals) {
    for (std::size_t m = 0; m < couplings_.size(); ++m)
      locals_[m].clear(unit, (marginals ? with_shape(m) : with_slopes(m)) ? 1 + dimension(m) : 1);
  }

  // g^T from the loss.
  void start(const Worker& worker, std::int64_t unit) {
    const Tile at = tile(worker);
    clear_locals(unit, false);
    for_tiles(tiling_, unit, [&](std::int64_t first, int points) {
      kernels_.load(task_.cotangent + first, tiling_.points, tiling_.labels, points, at.one);
      kernels_.load(task_.log_marginals + first, tiling_.points, tiling_.labels, points, at.two);
      kernels_.log_softmax_adjoint(at.one, at.two, tiling_.labels, at.g);
      kernels_.store(at.g, tiling_.labels, points, task_.scores + first, tiling_.points);
      if (task_.iterations > 0) send(at, first, points);
    });
  }

  // Remembers g and spreads it on every lattice.
  void send(const Tile& at, std::int64_t first, int points) {
    std::memcpy(g_of(first), at.g, plane_bytes());
    kernels_.to_rows(at.g, tiling_.labels, tiling_.width, at.rows);
    for (std::size_t m = 0; m < couplings_.size(); ++m)
      spread(m, first, points, at.rows, couplings_[m].after, with_slopes(m));
  }

  // Spreads a tile of rows, and where moments are wanted the same times each feature.
  void spread(std::size_t m, std::int64_t first, int points, const float* rows, const float* factor, bool moments) {
    const Corners at = corners(m, first, points);
    at.spread(rows, factor + first, locals_[m].sums());
    if (!moments) return;
    const int d = dimension(m);
    const float* x = wanted(m).features + first * d;
    for (int e = 0; e < d; ++e) {
      float scaled[kTile];
      for (int p = 0; p < points; ++p) scaled[p] = factor[first + p] * x[p * d + e];
      at.spread(rows, scaled, locals_[m].sums(1 + e));
    }
  }

  // Spreads q^(t-1) μᵀ on the lattices whose shapes are to be differentiated.
  void send_marginals(const Worker& worker, std::int64_t unit, int t) {
    const Tile at = tile(worker);
    clear_locals(unit, true);
    for_tiles(tiling_, unit, [&](std::int64_t first, int points) {
      for (std::size_t m = 0; m < couplings_.size(); ++m) {
        if (!with_shape(m)) continue;
        mix_marginals(m, q_of(first, t - 1), at.mixed);
        kernels_.to_rows(at.mixed, tiling_.labels, tiling_.width, at.rows);
        spread(m, first, points, at.rows, couplings_[m].before, true);
      }
    });
  }

  void mix_marginals(std::size_t m, const float* q, float* mixed) const {
    std::memset(mixed, 0, plane_bytes());
    kernels_.mix(q, couplings_[m].mu, couplings_[m].rank, false, tiling_.labels, mixed);
  }

  void gather_sent(const Worker& worker, std::size_t m) {
    gather_and_blur(worker, m, sending_[m], true, with_slopes(m) ? 1 + dimension(m) : 1);
  }

  void gather_received(const Worker& worker, std::size_t m) {
    if (with_shape(m)) gather_and_blur(worker, m, receiving_[m], false, 1 + dimension(m));
  }

  void gather_and_blur(const Worker& worker, std::size_t m, Field& field, bool adjoint, int arrays) {
    for (int e = 0; e < arrays; ++e) {
      field.gather(worker, locals_[m].sums(e), couplings_[m].magnitude, e);
      field.blur(worker, adjoint, e);
    }
  }

  // From g^t to g^(t-1).
  void step_back(const Worker& worker, std::int64_t unit, int t) {
    const Tile at = tile(worker);
    if (t > 1) clear_locals(unit, false);
    for_tiles(tiling_, unit, [&](std::int64_t first, int points) {
      const float* q = q_of(first, t - 1);
      const float* g = g_of(first);
      std::memset(at.h, 0, plane_bytes());
      for (std::size_t m = 0; m < couplings_.size(); ++m) {
        take_back(m, unit, first, points, q, g, at);
        if (with_shape(m)) take_message(m, unit, first, points, g, at);
      }
      kernels_.softmax_adjoint(at.h, q, tiling_.labels, at.g);
      kernels_.add(at.g, tiling_.labels, points, task_.scores + first, tiling_.points);
      if (t > 1) send(at, first, points);
    });
  }

  // h += K̂ᵀ g μ; and what follows from it.
  void take_back(std::size_t m, std::int64_t unit, std::int64_t first, int points, const float* q, const float* g,
                 const Tile& at) {
    const Coupling& coupling = couplings_[m];
    std::memset(at.rows, 0, kTile * tiling_.width * sizeof(float));
    corners(m, first, points).collect(sending_[m].rows(), coupling.before, 1, at.rows);
    std::memset(at.one, 0, plane_bytes());
    kernels_.to_planes(at.rows, tiling_.width, tiling_.labels, at.one);
    if (with_shape(m)) {
      mix_marginals(m, q, at.mixed);
      add_dot(at.one, at.mixed, points, wanted(m).received + first);
    }
    if (coupling.own) kernels_.take_own(coupling.own + first, g, tiling_.labels, points, at.one);
    if (wanted(m).mu)
      kernels_.couple(at.one, q, coupling.rank, tiling_.labels, points, mu_[m].data() + unit * mu_count(m));
    kernels_.mix(at.one, coupling.mu, coupling.rank, true, tiling_.labels, at.h);
  }

  // The message of q, for the derivatives of normalisation and shape; q μᵀ is in at.mixed.
  void take_message(std::size_t m, std::int64_t unit, std::int64_t first, int points, const float* g, const Tile& at) {
    const Coupling& coupling = couplings_[m];
    const CouplingGradients& gradients = wanted(m);
    std::memset(at.rows, 0, kTile * tiling_.width * sizeof(float));
    corners(m, first, points).collect(receiving_[m].rows(), coupling.after, 1, at.rows);
    std::memset(at.message, 0, plane_bytes());
    kernels_.to_planes(at.rows, tiling_.width, tiling_.labels, at.message);
    add_dot(at.message, g, points, gradients.sent + first);
    if (coupling.own) {
      float sums[kTile] = {};
      kernels_.dot(g, at.mixed, tiling_.labels, sums);
      for (int p = 0; p < points; ++p) gradients.own[first + p] += coupling.own[first + p] * sums[p];
    }
    const int d = dimension(m);
    const float* x = gradients.features + first * d;
    float slopes[kTile * max_dimension] = {};
    kernels_.to_rows(g, tiling_.labels, tiling_.width, at.rows);
    corners(m, first, points)
        .collect_slopes(receiving_[m].rows(1), receiving_[m].rows_stride(), coupling.after, 1, at.rows, slopes);
    double* sums = moments_[m].data() + unit * d * d;
    for (int e = 0; e < d; ++e)
      for (int f = gradients.all_pairs ? 0 : e; f < (gradients.all_pairs ? d : e + 1); ++f) {
        double sum = 0;
        for (int p = 0; p < points; ++p) sum += x[p * d + f] * slopes[p * d + e];
        sums[f * d + e] += sum;
      }
    if (!gradients.slopes) return;
    kernels_.to_rows(at.mixed, tiling_.labels, tiling_.width, at.rows);
    corners(m, first, points)
        .collect_slopes(sending_[m].rows(1), sending_[m].rows_stride(), coupling.before, 1, at.rows, slopes);
    for (int i = 0; i < points * d; ++i) gradients.slopes[first * d + i] += slopes[i];
  }

  void add_dot(const float* a, const float* b, int points, float* sums) const {
    float here[kTile] = {};
    kernels_.dot(a, b, tiling_.labels, here);
    for (int p = 0; p < points; ++p) sums[p] += here[p];
  }

  static void sum_up(const std::vector<double>& parts, double* total, int count, bool into_one) {
    if (!total) return;
    for (int i = 0; i < (into_one ? 1 : count); ++i) total[i] = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) total[into_one ? 0 : i % count] += parts[i];
  }

  const std::vector<Coupling>& couplings_;
  const Tiling& tiling_;
  const BackTracking& task_;
  const TileKernels& kernels_;
  Buffer<float> g_;  // tile by tile in planes
  std::deque<Field> sending_, receiving_;
  std::deque<Local> locals_;
  std::deque<std::vector<double>> mu_, moments_;
  std::deque<Queue> queues_;
  std::deque<Buffer<float>> tiles_;
  bool shapes_ = false;
};

}  // namespace

void back_track(const std::vector<Coupling>& couplings, const Tiling& tiling, const BackTracking& task,
                const TileKernels& kernels, int threads) {
  if (tiling.points == 0) return;
  threads = worth_starting(threads, tiling);
  Backwards backwards(couplings, tiling, task, kernels, threads);
  parallel(threads, [&](const Worker& worker) { backwards.run(worker); });
  backwards.finish();
}

}  // namespace densefield
