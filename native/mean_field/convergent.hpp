// One step of convergent inference on a tile (paper, Inference, CCCP), and its adjoint. With c = f + Σ_m K̂_m q μ_m, diagonal
// included, and D = Σ_m own_m μ_m, the next q of a point is the least Σ q log q - q·c + ½ qᵀ D q.
#pragma once

#include <deque>

#include "mean_field/simplex_program.hpp"
#include "mean_field/tiles.hpp"

namespace densefield {

class SimplexPrograms {
 public:
  SimplexPrograms(const std::vector<Coupling>& couplings, const Tiling& tiling, const TileKernels& kernels, int threads)
      : couplings_(couplings), tiling_(tiling), kernels_(kernels) {
    for (const Coupling& coupling : couplings) {
      if (!coupling.own) continue;
      any_ = true;
      rank_ = std::max(rank_, coupling.rank);
    }
    if (!any_) return;
    const int size = tiling.num_classes;
    const std::size_t doubles = rank_ == 2 ? MatrixProgram::doubles(size) : 0;
    for (int worker = 0; worker < threads; ++worker) {
      diagonals_.emplace_back(static_cast<std::size_t>(tiling.plane_floats()));
      numbers_.emplace_back(doubles + static_cast<std::size_t>(4 * size));
    }
  }

  // Whether there is a term in D; without it, a step is the ordinary update.
  bool any() const { return any_; }

  // log q of the programs with c in planes, which are changed; `last` are marginals to start from.
  void solve(const Worker& worker, std::int64_t first, int points, float* c, const float* last, float* log_q) {
    float shift[kTile];
    kernels_.subtract_largest(c, tiling_.num_classes, shift);
    double* const memory = numbers_[worker.index].data();
    const int size = tiling_.num_classes;
    if (rank_ == 2) {
      MatrixProgram program(size, memory + 4 * size);
      for (int p = 0; p < points; ++p) {
        load(c, p, memory);
        load(last, p, program.x);
        fill_matrix(first + p, program.d);
        program.solve(memory);
        store(program.log_p, p, log_q);
      }
      return;
    }
    const float* d = diagonals(worker, first, points);
    float change[kTile];
    kernels_.solve_programs(c, d, last, size, log_q, change);
    for (int p = 0; p < points; ++p) {
      if (change[p] <= program_change) continue;
      load(c, p, memory);
      load(d, p, memory + size);
      solve_diagonal_program(memory, memory + size, size, memory + 2 * size);
      store(memory + 2 * size, p, log_q);
    }
  }

  // g = ∂loss/∂c. With Q = diag q: x = (I + Q D)⁻¹ v, y = (I + Q D)⁻¹ q and g = x - y Σx/Σy, where v is ∂loss/∂log q, or
  // q ⊙ ∂loss/∂q if `by_marginals` is set.
  void adjoint(const Worker& worker, std::int64_t first, int points, const float* v, bool by_marginals, const float* q,
               float* g) {
    if (rank_ < 2) {
      const float* d = diagonals(worker, first, points);
      return kernels_.program_adjoint(v, by_marginals, q, d, tiling_.num_classes, g);
    }
    const int size = tiling_.num_classes;
    double* const memory = numbers_[worker.index].data();
    double *const of_q = memory, *const sides = memory + size;
    MatrixProgram program(size, memory + 4 * size);
    for (int p = 0; p < points; ++p) {
      fill_matrix(first + p, program.d);
      load(q, p, of_q);
      for (int i = 0; i < size; ++i) {
        sides[2 * i] = v[i * kTile + p] * (by_marginals ? of_q[i] : 1);
        sides[2 * i + 1] = of_q[i];
        for (int j = 0; j < size; ++j) program.jacobian[i * size + j] = of_q[i] * program.d[i * size + j] + (i == j);
      }
      solve_linear(program.jacobian, size, sides, 2);
      double x = 0, y = 0;
      for (int i = 0; i < size; ++i) {
        x += sides[2 * i];
        y += sides[2 * i + 1];
      }
      for (int i = 0; i < size; ++i) g[i * kTile + p] = static_cast<float>(sides[2 * i] - sides[2 * i + 1] * (x / y));
    }
    for (int i = 0; i < size; ++i) std::fill(g + i * kTile + points, g + (i + 1) * kTile, 0.0f);
  }

 private:
  // d of a tile in planes, for couplings without matrices.
  const float* diagonals(const Worker& worker, std::int64_t first, int points) {
    float* const d = diagonals_[worker.index].data();
    std::fill_n(d, tiling_.plane_floats(), 0.0f);
    for (const Coupling& coupling : couplings_) {
      if (!coupling.own) continue;
      for (int l = 0; l < tiling_.num_classes; ++l) {
        const float mu = coupling.mu[coupling.rank == 0 ? 0 : l];
        for (int p = 0; p < points; ++p) d[l * kTile + p] += mu * coupling.own[first + p];
      }
    }
    return d;
  }

  void fill_matrix(std::int64_t point, double* d) const {
    const int size = tiling_.num_classes;
    std::fill_n(d, size * size, 0.0);
    for (const Coupling& coupling : couplings_) {
      if (!coupling.own) continue;
      const double own = coupling.own[point];
      if (coupling.rank == 2)
        for (int i = 0; i < size * size; ++i) d[i] += own * coupling.mu[i];
      else
        for (int l = 0; l < size; ++l) d[l * size + l] += own * coupling.mu[coupling.rank == 0 ? 0 : l];
    }
  }

  void load(const float* planes, int p, double* to) const {
    for (int l = 0; l < tiling_.num_classes; ++l) to[l] = planes[l * kTile + p];
  }
  void store(const double* from, int p, float* planes) const {
    for (int l = 0; l < tiling_.num_classes; ++l) planes[l * kTile + p] = static_cast<float>(from[l]);
  }

  const std::vector<Coupling>& couplings_;
  const Tiling& tiling_;
  const TileKernels& kernels_;
  bool any_ = false;
  int rank_ = 0;
  std::deque<Buffer<float>> diagonals_;
  std::deque<Buffer<double>> numbers_;
};

}  // namespace densefield
