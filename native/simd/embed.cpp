// Embedding of points in simplices of the permutohedral lattice (Adams, Baek & Davis 2010). Compiled once per
// instruction set, always without contraction of multiply and add, so that every processor builds the same lattice.
#include <cmath>
#include <cstring>

#include "base/compiler.hpp"
#include "simd/lattice_kernels.hpp"

namespace densefield::DENSEFIELD_ISA {

namespace {

constexpr int block = 16;  // points processed together, one vector lane each

#if defined(__GNUC__) || defined(__clang__)
#define DENSEFIELD_LANES _Pragma("omp simd") for (int lane = 0; lane < block; ++lane)
#else
#define DENSEFIELD_LANES for (int lane = 0; lane < block; ++lane)
#endif

// Adding and subtracting this number rounds to the nearest integer, also without such an instruction.
template <class Real>
inline constexpr Real rounder = sizeof(Real) == 8 ? Real(6755399441055744.0) : Real(12582912.0);  // 1.5 · 2^(52 or 23)

// y_0 = Σ_i cf_i, y_j = Σ_{i ≥ j} cf_i − j·cf_{j−1} with cf_i = x_i·scale_i: d+1 coordinates that sum to zero.
template <int D, class Real, class In>
inline void elevate(const Embedding& e, const In* features, std::int64_t points, Real (*y)[block]) {
  const int d = D ? D : e.dimension;
  In padded[block * max_dimension];
  if (points < block) {
    for (int lane = 0; lane < block; ++lane)
      std::memcpy(padded + lane * d, features + (lane < points ? lane : points - 1) * d, d * sizeof(In));
    features = padded;
  }
  alignas(64) Real x[max_dimension][block];  // contiguous, so that the compiler uses vectors
  for (int lane = 0; lane < block; ++lane)
    for (int j = 0; j < d; ++j) x[j][lane] = static_cast<Real>(features[lane * d + j]);
  alignas(64) Real sum[block] = {};
  for (int j = d; j > 0; --j) {
    const Real scale = static_cast<Real>(e.scale[j - 1]), times = static_cast<Real>(j);
    DENSEFIELD_LANES {
      const Real cf = x[j - 1][lane] * scale;
      y[j][lane] = sum[lane] - times * cf;
      sum[lane] += cf;
    }
  }
  DENSEFIELD_LANES y[0][lane] = sum[lane];
}

template <int D, class Real, class In>
void bounds_of(const Embedding& e, const In* features, std::int64_t points, Bounds& bounds) {
  const int d = D ? D : e.dimension, corners = d + 1;
  alignas(64) Real y[max_corners][block];
  alignas(64) Real low[max_corners][block], high[max_corners][block];
  alignas(64) Real poison[block] = {};  // stays zero unless a coordinate is NaN or infinite
  for (int j = 0; j < corners; ++j)
    for (int lane = 0; lane < block; ++lane) low[j][lane] = HUGE_VALF, high[j][lane] = -HUGE_VALF;
  for (std::int64_t first = 0; first < points; first += block) {
    elevate<D, Real>(e, features + first * d, points - first, y);
    for (int j = 0; j < corners; ++j) DENSEFIELD_LANES {
        const Real value = y[j][lane];
        low[j][lane] = value < low[j][lane] ? value : low[j][lane];
        high[j][lane] = value > high[j][lane] ? value : high[j][lane];
        poison[lane] += value * Real(0);
      }
  }
  bounds.finite = true;
  for (int lane = 0; lane < block; ++lane) bounds.finite &= poison[lane] == Real(0);
  const double cell = 1.0 / corners;
  for (int j = 0; j < corners; ++j) {
    bounds.low[j] = HUGE_VAL, bounds.high[j] = -HUGE_VAL;
    for (int lane = 0; lane < block; ++lane) {
      if (low[j][lane] * cell < bounds.low[j]) bounds.low[j] = low[j][lane] * cell;
      if (high[j][lane] * cell > bounds.high[j]) bounds.high[j] = high[j][lane] * cell;
    }
  }
}

template <int D, class Real, class In>
void embed_points(const Embedding& e, const In* features, std::int64_t points, const NarrowCode* code,
                  std::int32_t* cells, std::uint64_t* keys, std::uint8_t* order, float* weights) {
  const int d = D ? D : e.dimension, corners = d + 1;
  const Real up_factor = static_cast<Real>(corners), down_factor = Real(1) / up_factor;
  const Real top = static_cast<Real>(d);
  alignas(64) Real y[max_corners][block], cell[max_corners][block], rank[max_corners][block], total[block];
  alignas(64) std::int32_t whole_cell[max_corners][block];
  alignas(64) Real sorted[max_corners][block], weight[max_corners][block];
  for (std::int64_t first = 0; first < points; first += block) {
    const std::int64_t here = points - first < block ? points - first : block;
    elevate<D, Real>(e, features + first * d, here, y);

    // The nearest point whose coordinates are all multiples of d+1, and their sum, which should be zero.
    DENSEFIELD_LANES total[lane] = 0;
    for (int j = 0; j < corners; ++j) DENSEFIELD_LANES {
        const Real v = y[j][lane] * down_factor;
        const Real near = (v + rounder<Real>)-rounder<Real>;
        const Real down = near - (near > v ? Real(1) : Real(0)), up = near + (near < v ? Real(1) : Real(0));
        const Real nearest = up * up_factor - y[j][lane] < y[j][lane] - down * up_factor ? up : down;
        cell[j][lane] = nearest;
        total[lane] += nearest;
        y[j][lane] -= nearest * up_factor;  // y is the residual from here on
        rank[j][lane] = 0;
      }
    // Rank of each residual, largest first; equal ones by index.
    for (int i = 0; i < d; ++i)
      for (int j = i + 1; j < corners; ++j) DENSEFIELD_LANES {
          const Real less = y[i][lane] < y[j][lane] ? Real(1) : Real(0);
          rank[i][lane] += less;
          rank[j][lane] += Real(1) - less;
        }
    // Back to the plane of sum zero: shift the coordinates rounded furthest.
    for (int j = 0; j < corners; ++j) DENSEFIELD_LANES {
        const Real shifted = rank[j][lane] + total[lane];
        const Real move = (shifted < 0 ? Real(1) : Real(0)) - (shifted > top ? Real(1) : Real(0));
        rank[j][lane] = shifted + move * up_factor;
        whole_cell[j][lane] = static_cast<std::int32_t>(cell[j][lane] + move);
        y[j][lane] = (y[j][lane] - move * up_factor) * down_factor;
      }

    // Residuals sorted by rank, and their coordinates.
    alignas(64) std::int32_t coordinate[max_corners][block];
    for (int r = 0; r < corners; ++r) DENSEFIELD_LANES {
        Real residual = y[0][lane];
        std::int32_t of = 0;
        const Real wanted = static_cast<Real>(r);
        DENSEFIELD_UNROLL
        for (int j = 1; j < corners; ++j) {
          const bool here_it_is = rank[j][lane] == wanted;
          residual = here_it_is ? y[j][lane] : residual;
          of = here_it_is ? j : of;
        }
        sorted[r][lane] = residual;
        coordinate[r][lane] = of;
      }
    DENSEFIELD_LANES weight[0][lane] = Real(1) + (sorted[d][lane] - sorted[0][lane]);
    for (int k = 1; k <= d; ++k) DENSEFIELD_LANES weight[k][lane] = sorted[d - k][lane] - sorted[d - k + 1][lane];
    for (int lane = 0; lane < here; ++lane)
      for (int k = 0; k < corners; ++k) weights[(first + lane) * corners + k] = static_cast<float>(weight[k][lane]);
    for (int lane = 0; lane < here; ++lane)
      for (int r = 0; r < corners; ++r)
        order[(first + lane) * corners + r] = static_cast<std::uint8_t>(coordinate[r][lane]);
    if (code) {
      alignas(64) std::uint64_t key[block];
      DENSEFIELD_LANES key[lane] = code->origin;
      for (int j = 0; j < d; ++j)
        DENSEFIELD_LANES key[lane] += static_cast<std::uint64_t>(std::int64_t{whole_cell[j][lane]}) * code->unit[j];
      std::memcpy(keys + first, key, here * sizeof *keys);
    } else {
      for (int lane = 0; lane < here; ++lane)
        for (int j = 0; j < d; ++j) cells[(first + lane) * d + j] = whole_cell[j][lane];
    }
  }
}

// Calls task.run<D, Real>(features) with dimension and precision as compile-time constants; D is 0 for rare ones.
template <int D, class Task>
void in_precision(const Embedding& e, const void* features, bool features_double, const Task& task) {
  if (features_double)
    task.template run<D, double>(static_cast<const double*>(features));
  else if (e.single_precision)
    task.template run<D, float>(static_cast<const float*>(features));
  else
    task.template run<D, double>(static_cast<const float*>(features));
}

template <class Task>
void in_dimension(const Embedding& e, const void* features, bool features_double, const Task& task) {
  switch (e.dimension) {  // images and volumes, either without colours, grey or with three
    case 2: return in_precision<2>(e, features, features_double, task);
    case 3: return in_precision<3>(e, features, features_double, task);
    case 4: return in_precision<4>(e, features, features_double, task);
    case 5: return in_precision<5>(e, features, features_double, task);
    case 6: return in_precision<6>(e, features, features_double, task);
    default: return in_precision<0>(e, features, features_double, task);
  }
}

struct BoundsTask {
  const Embedding& e;
  std::int64_t points;
  Bounds& out;

  template <int D, class Real, class In>
  void run(const In* features) const {
    bounds_of<D, Real>(e, features, points, out);
  }
};

struct EmbedTask {
  const Embedding& e;
  std::int64_t points;
  const NarrowCode* code;
  std::int32_t* cells;
  std::uint64_t* keys;
  std::uint8_t* order;
  float* weights;

  template <int D, class Real, class In>
  void run(const In* features) const {
    embed_points<D, Real>(e, features, points, code, cells, keys, order, weights);
  }
};

}  // namespace

void bounds(const Embedding& e, const void* features, bool features_double, std::int64_t points, Bounds& out) {
  in_dimension(e, features, features_double, BoundsTask{e, points, out});
}

void embed(const Embedding& e, const void* features, bool features_double, std::int64_t points, const NarrowCode* code,
           std::int32_t* cells, std::uint64_t* keys, std::uint8_t* order, float* weights) {
  in_dimension(e, features, features_double, EmbedTask{e, points, code, cells, keys, order, weights});
}

// The weight of corner d−r increases with the residual of rank r, that of the next corner decreases.
void pull_back(const Embedding& e, std::int64_t points, const std::uint8_t* order, const float* slopes,
               float* gradient) {
  const int d = e.dimension, corners = d + 1;
  for (std::int64_t point = 0; point < points; ++point) {
    const std::uint8_t* point_order = order + point * corners;
    const float* slope = slopes + point * corners;
    double slope_y[max_corners];
    for (int r = 0; r < corners; ++r)
      slope_y[point_order[r]] =
          (static_cast<double>(slope[d - r]) - static_cast<double>(slope[(d - r + 1) % corners])) / corners;
    double sum = slope_y[0];
    for (int i = 0; i < d; ++i) {
      gradient[point * d + i] = static_cast<float>(e.scale[i] * (sum - (i + 1) * slope_y[i + 1]));
      sum += slope_y[i + 1];
    }
  }
}

}  // namespace densefield::DENSEFIELD_ISA
