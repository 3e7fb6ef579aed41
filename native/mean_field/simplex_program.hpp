// The convex program of one point in convergent inference, in double precision: the least Σ q log q - q·c + ½ qᵀ D q over
// distributions q. Twins of the solvers in densefield/crf/convergent.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace densefield {

inline constexpr double program_eps = std::numeric_limits<double>::epsilon();
inline constexpr int most_program_steps = 500;  // far more than any program needs

// ω with ω + log ω = x: two steps of Fritsch, Shafer and Crowley (1973) from log(1 + e^x).
inline double lambert_of_exponential(double x) {
  if (x < -40) return std::exp(x);  // ω² is lost to rounding beside ω
  double w = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  for (int step = 0; step < 2; ++step) {
    const double rest = x - w - std::log(w), ratio = rest / (1 + w), scale = 1 + w + rest * (2.0 / 3);
    w *= 1 + ratio * (scale - ratio / 2) / (scale - ratio);
  }
  return w;
}

// log q for D = diag(d), by Newton's method on the multiplier ν of Σ q = 1: log q_l + d_l q_l = c_l - ν. Σ q(ν) falls and is
// convex, so Newton's method rises to the root from the left. The largest c must be 0.
inline void solve_diagonal_program(const double* c, const double* d, int size, double* log_q) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int l = 0; l < size; ++l) largest = std::max(largest, c[l] - d[l]);
  for (int l = 0; l < size; ++l) sum += std::exp(c[l] - d[l] - largest);
  double nu = largest + std::log(sum);
  for (int round = 0; round < most_program_steps; ++round) {
    double total = 0, slope = 0;
    for (int l = 0; l < size; ++l) {
      const double w = d[l] > 0 ? lambert_of_exponential(c[l] - nu + std::log(d[l])) : 0;
      // The same in two forms, each where nothing cancels.
      log_q[l] = w > 1 ? std::log(w) - std::log(d[l]) : c[l] - nu - w;
      const double q = std::exp(log_q[l]);
      total += q;
      slope += q / (1 + w);
    }
    const double step = (total - 1) / slope;
    if (!(step > 4 * program_eps * std::max(1.0, -nu))) break;
    nu += step;
  }
}

// Solves a · x = b for `sides` right-hand sides (size, sides) by elimination with pivots; a (size, size) is destroyed.
inline void solve_linear(double* a, int size, double* b, int sides) {
  for (int k = 0; k < size; ++k) {
    int pivot = k;
    for (int i = k + 1; i < size; ++i)
      if (std::abs(a[i * size + k]) > std::abs(a[pivot * size + k])) pivot = i;
    if (pivot != k) {
      std::swap_ranges(a + k * size, a + (k + 1) * size, a + pivot * size);
      std::swap_ranges(b + k * sides, b + (k + 1) * sides, b + pivot * sides);
    }
    const double inverse = 1 / a[k * size + k];
    for (int i = k + 1; i < size; ++i) {
      const double factor = a[i * size + k] * inverse;
      if (factor == 0) continue;
      for (int j = k; j < size; ++j) a[i * size + j] -= factor * a[k * size + j];
      for (int side = 0; side < sides; ++side) b[i * sides + side] -= factor * b[k * sides + side];
    }
  }
  for (int k = size - 1; k >= 0; --k)
    for (int side = 0; side < sides; ++side) {
      double sum = b[k * sides + side];
      for (int j = k + 1; j < size; ++j) sum -= a[k * size + j] * b[j * sides + side];
      b[k * sides + side] = sum / a[k * size + k];
    }
}

// Working memory of the program with a matrix D.
struct MatrixProgram {
  int size;
  double *d, *jacobian, *log_p, *p, *x, *rest, *step, *slope;

  static std::size_t doubles(int size) { return static_cast<std::size_t>(2 * size * size + 6 * size); }
  MatrixProgram(int size_, double* memory)
      : size(size_),
        d(memory),
        jacobian(d + size * size),
        log_p(jacobian + size * size),
        p(log_p + size),
        x(p + size),
        rest(x + size),
        step(rest + size),
        slope(step + size) {}

  // log q in log_p for D in d (symmetric, positive semi-definite) and a start in x, by damped Newton's method on
  // ψ(x) = ½ xᵀ D x + log Σ exp(c - D x), whose least x is q = softmax(c - D x). A large D makes ψ all corners: there the
  // entropy is weighted up at first.
  void solve(const double* c) {
    double most = 0;
    for (int i = 0; i < size * size; ++i) most = std::max(most, std::abs(d[i]));
    for (double heat = most / 100; heat > 1; heat /= 10) {
      descend(c, 1 / heat);
      std::copy_n(p, size, x);
    }
    descend(c, 1);
  }

 private:
  void times_d(const double* v, double factor, double* out) const {
    for (int i = 0; i < size; ++i) {
      double sum = 0;
      for (int j = 0; j < size; ++j) sum += d[i * size + j] * v[j];
      out[i] = factor * sum;
    }
  }
  // log p -= log Σ exp(log p), and p
  double normalize() {
    const double shift = log_sum(0);
    for (int l = 0; l < size; ++l) log_p[l] -= shift;
    for (int l = 0; l < size; ++l) p[l] = std::exp(log_p[l]);
    return shift;
  }
  // log Σ exp(log p - t · slope)
  double log_sum(double t) const {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int l = 0; l < size; ++l) largest = std::max(largest, log_p[l] - t * slope[l]);
    for (int l = 0; l < size; ++l) sum += std::exp(log_p[l] - t * slope[l] - largest);
    return largest + std::log(sum);
  }
  static double inner(const double* a, const double* b, int size) {
    double sum = 0;
    for (int l = 0; l < size; ++l) sum += a[l] * b[l];
    return sum;
  }

  // The program with c and D multiplied by `factor`.
  void descend(const double* c, double factor) {
    times_d(x, factor, slope);
    for (int l = 0; l < size; ++l) log_p[l] = factor * c[l] - slope[l];
    std::fill_n(slope, size, 0.0);
    normalize();
    for (int round = 0; round < most_program_steps; ++round) {
      double far = 0;
      for (int l = 0; l < size; ++l) {
        rest[l] = p[l] - x[l];
        far = std::max(far, std::abs(rest[l]));
      }
      if (!(far > 4 * program_eps)) break;
      for (int j = 0; j < size; ++j) {  // (I + (diag p - p pᵀ) D) step = p - x
        double mean = 0;
        for (int i = 0; i < size; ++i) mean += p[i] * d[i * size + j];
        for (int i = 0; i < size; ++i) jacobian[i * size + j] = factor * p[i] * (d[i * size + j] - mean) + (i == j);
      }
      std::copy_n(rest, size, step);
      solve_linear(jacobian, size, step, 1);
      times_d(step, factor, slope);
      const double t = step_size();
      for (int l = 0; l < size; ++l) {
        x[l] += t * step[l];
        log_p[l] -= t * slope[l];
        slope[l] = 0;
      }
      normalize();
    }
  }

  // 1, ½, ¼, …: the first to lower ψ by a part of what its tangent promises.
  double step_size() const {
    const double promised = -inner(rest, slope, size), linear = inner(x, slope, size);
    const double square = inner(step, slope, size) / 2;
    double steepest = 0;
    for (int l = 0; l < size; ++l) steepest = std::max(steepest, std::abs(slope[l]));
    double t = 1;
    for (int halvings = 0; halvings < 60; ++halvings, t /= 2)
      if (!(t * linear + t * t * square + log_sum(t) > 1e-4 * t * promised + 16 * program_eps * (1 + steepest))) break;
    return t;
  }
};

}  // namespace densefield
