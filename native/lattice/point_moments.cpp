// Second moments between points from those between vertices; see densefield/filters/moments.py for the method.
#include <deque>
#include <vector>

#include "lattice/vertex_moments.hpp"

namespace densefield {

namespace {

// Points of a chunk in rows (1, x), with x relative to the mean against rounding errors.
class CentredPoints {
 public:
  explicit CentredPoints(const Lattice& lattice)
      : lattice_(lattice), dimension_(lattice.embedding.dimension), middle_{} {
    const std::int64_t step = std::max<std::int64_t>(lattice.points / 1024, 1);
    const std::int64_t samples = (lattice.points + step - 1) / step;
    for (std::int64_t point = 0; point < lattice.points; point += step)
      for (int e = 0; e < dimension_; ++e) middle_[e] += at(point, e) / static_cast<double>(samples);
  }

  // If `present` (points) is given, rows are multiplied by it.
  void fill(std::int64_t chunk, const float* present, int width, float* rows) const {
    if (lattice_.features.is_double)
      fill_from<double, 0>(chunk, width, rows);
    else if (dimension_ == 2)
      fill_from<float, 2>(chunk, width, rows);
    else if (dimension_ == 5)
      fill_from<float, 5>(chunk, width, rows);
    else
      fill_from<float, 0>(chunk, width, rows);
    if (!present) return;
    const std::int64_t first = lattice_.chunk_begin(chunk), points = lattice_.chunk(chunk).points;
    for (std::int64_t point = 0; point < points; ++point)
      for (int e = 0; e <= dimension_; ++e) rows[point * width + e] *= present[first + point];
  }

 private:
  double at(std::int64_t point, int e) const {
    const void* row = lattice_.features.row(dimension_, point);
    return lattice_.features.is_double ? static_cast<const double*>(row)[e] : static_cast<const float*>(row)[e];
  }

  // D is the dimension if known at compile time, else 0.
  template <class Real, int D>
  void fill_from(std::int64_t chunk, int row, float* rows) const {
    const int dimension = D ? D : dimension_, width = D ? std::max(padded_row(1 + D), 4) : row;
    const std::int64_t first = lattice_.chunk_begin(chunk);
    const auto* from = static_cast<const Real*>(lattice_.features.row(dimension, first));
    const std::int64_t points = lattice_.chunk(chunk).points;
    Real middle[max_dimension];
    std::copy(middle_, middle_ + max_dimension, middle);
    for (std::int64_t point = 0; point < points; ++point, from += dimension, rows += width) {
      rows[0] = 1;
      for (int e = 0; e < dimension; ++e) rows[1 + e] = static_cast<float>(from[e] - middle[e]);
      for (int e = dimension + 1; e < width; ++e) rows[e] = 0;
    }
  }

  const Lattice& lattice_;
  const int dimension_;
  double middle_[max_dimension];
};

// With y_i (K·1)_i = row_sums_i and w = y + extra, moments become factor · (moments - E) + P: E are the vertex moments
// of the pairs (y_i, 1), and P = Σ_ij k(i,j) w_i (x_i - x_j)(x_i - x_j)ᵀ the point moments, which are the symmetric
// part of Σ_i (w_i (K·1)_i + (Kᵀw)_i) x_i x_iᵀ - 2 w_i x_i (K·x)_iᵀ. If `present` is given, it replaces 1, and present
// x replaces x right of K.
class PointMoments {
 public:
  PointMoments(const LatticeFilter& filter, const float* row_sums, const float* extra, const float* present,
               float magnitude, int threads)
      : filter_(filter),
        lattice_(filter.lattice()),
        row_sums_(row_sums),
        extra_(extra),
        present_(present),
        magnitude_(magnitude),
        points_(lattice_),
        between_vertices_(filter),
        row_(between_vertices_.packed_row()),
        lanes_(extra ? 2 : 1),
        local_(size(lattice_.slots() * row_)),
        moved_(size(lattice_.vertices * row_)),
        one_(size(lattice_.vertices)),
        weights_at_vertices_(size(lattice_.vertices * lanes_)),
        before_blur_(size(lattice_.vertices)),
        space_(size(lattice_.vertices * row_)),
        weighted_sums_(size(lattice_.points)),
        chunk_floats_(lattice_.chunk_points * (2 * row_ + 2)),
        chunks_(size(threads * chunk_floats_)),
        parts_(size(lattice_.chunks() * row_ * row_), 0.0) {
    for (int pass = 0; pass < 3; ++pass) queues_.emplace_back(lattice_.chunks(), threads);
  }

  void run(const Worker& worker) {
    between_vertices_.locate(worker);
    for_chunks(0, worker, [&](const ChunkSpace& at) {
      points_.fill(at.chunk, present_, row_, at.x);
      splat(at, at.x, row_);
    });
    gather_and_blur(worker, row_, false, moved_, one_);
    for_chunks(1, worker, [&](const ChunkSpace& at) { to_weights(at); });
    gather_and_blur(worker, lanes_, true, weights_at_vertices_, before_blur_);
    for_chunks(2, worker, [&](const ChunkSpace& at) { add_adjoint(at); });
    between_vertices_.add_one(worker, {before_blur_.data(), 1}, {weights_at_vertices_.data(), lanes_}, {one_.data(), 1},
                              space_.data());
  }

  // Adds partial sums in a fixed order, after all workers have finished.
  void finish(double factor, double* moments) const {
    const int d = lattice_.embedding.dimension;
    std::vector<double> of_one(size(d * d), 0.0), of_points(size(row_ * row_), 0.0);
    between_vertices_.finish(1.0 / magnitude_, of_one.data());  // both sides contain the magnitude
    for (std::size_t i = 0; i < parts_.size(); ++i) of_points[i % of_points.size()] += parts_[i];
    for (int e = 0; e < d; ++e)
      for (int f = 0; f < d; ++f)
        moments[e * d + f] = factor * (moments[e * d + f] - of_one[e * d + f]) +
                             (of_points[(e + 1) * row_ + f + 1] + of_points[(f + 1) * row_ + e + 1]) / 2;
  }

 private:
  static std::size_t size(std::int64_t floats) { return static_cast<std::size_t>(floats); }

  // A chunk of points and a worker's memory for it.
  struct ChunkSpace {
    std::int64_t chunk, first, points;
    float *x, *filtered;  // (points, row)
    float *weights, *ys;  // (points)
  };

  template <class Task>
  void for_chunks(int pass, const Worker& worker, const Task& task) {
    float* memory = chunks_.data() + worker.index * chunk_floats_;
    float* filtered = memory + lattice_.chunk_points * row_;
    float* weights = filtered + lattice_.chunk_points * row_;
    queues_[pass].drain(worker, [&](std::int64_t chunk) {
      task({chunk, lattice_.chunk_begin(chunk), lattice_.chunk(chunk).points, memory, filtered, weights,
            weights + lattice_.chunk_points});
    });
  }

  // Gathers and blurs splatted values; `before` gets the first lane before the blur.
  void gather_and_blur(const Worker& worker, int width, bool adjoint, Buffer<float>& rows, Buffer<float>& before) {
    worker.sync();
    filter_.gather(worker, row_kind(width), local_.data(), magnitude_, rows.data());
    const auto [first, last] = VertexMoments::share(worker, lattice_.vertices);
    for (std::int64_t vertex = first; vertex < last; ++vertex) before[vertex] = rows[vertex * head_of(width)];
    filter_.blur(worker, row_kind(width), rows.data(), adjoint);
    worker.sync();
  }

  // From K·1 and K·x to y and w.
  void to_weights(const ChunkSpace& at) {
    points_.fill(at.chunk, nullptr, row_, at.x);
    slice(at, moved_, row_);
    for (std::int64_t point = 0; point < at.points; ++point) {
      const float total = at.filtered[point * row_], sum = row_sums_[at.first + point];
      const float extra = extra_ ? extra_[at.first + point] : 0;
      at.ys[point] = total > 0 ? sum / total : 0;
      at.weights[point] = -2 * (at.ys[point] + extra);
      weighted_sums_[at.first + point] = sum + extra * total;
    }
    add_products(at, at.filtered);
    for (std::int64_t point = 0; point < at.points; ++point) {
      at.filtered[point * lanes_] = at.ys[point];
      if (extra_) at.filtered[point * lanes_ + 1] = at.ys[point] + extra_[at.first + point];
    }
    splat(at, at.filtered, lanes_);
  }

  // Kᵀw is the last lane.
  void add_adjoint(const ChunkSpace& at) {
    points_.fill(at.chunk, nullptr, row_, at.x);
    slice(at, weights_at_vertices_, lanes_);
    for (std::int64_t point = 0; point < at.points; ++point) {
      const float back = at.filtered[point * lanes_ + lanes_ - 1];
      at.weights[point] = weighted_sums_[at.first + point] + (present_ ? present_[at.first + point] * back : back);
    }
    add_products(at, at.x);
  }

  void splat(const ChunkSpace& at, const float* values, int width) {
    const std::int64_t slot = lattice_.chunk_slots[at.chunk], slots = lattice_.chunk_slots[at.chunk + 1] - slot;
    filter_.kernels().splat[row_kind(width)](lattice_.chunk(at.chunk), values, width, width,
                                             Columns<float>::of(local_.data(), lattice_.slots()).from(slot, width),
                                             slots);
  }
  void slice(const ChunkSpace& at, const Buffer<float>& rows, int width) {
    filter_.kernels().slice[row_kind(width)](
        lattice_.chunk(at.chunk), Columns<const float>::of(rows.data(), lattice_.vertices), at.filtered, width, width);
  }
  // Σ weight · x otherᵀ
  void add_products(const ChunkSpace& at, const float* other) {
    filter_.kernels().products[row_kind(row_)](at.x, other, at.weights, at.points,
                                               parts_.data() + at.chunk * row_ * row_);
  }

  const LatticeFilter& filter_;
  const Lattice& lattice_;
  const float *row_sums_, *extra_, *present_;
  const float magnitude_;
  const CentredPoints points_;
  VertexMoments between_vertices_;
  const int row_;    // width of rows (1, x)
  const int lanes_;  // 1 for y, 2 for y and w
  Buffer<float> local_, moved_, one_, weights_at_vertices_, before_blur_, space_;
  Buffer<float> weighted_sums_;  // (points): w (K·1)
  const std::int64_t chunk_floats_;
  Buffer<float> chunks_;
  std::vector<double> parts_;  // (chunks, row, row)
  std::deque<Queue> queues_;
};

}  // namespace

void LatticeFilter::point_moments(const float* row_sums, const float* extra, const float* present, double factor,
                                  float magnitude, double* moments, int threads) const {
  if (lattice_.points == 0) return;
  threads = useful_threads(threads, {1, lattice_.corners()});
  PointMoments pairs(*this, row_sums, extra, present, magnitude, threads);
  parallel(threads, [&](const Worker& worker) { pairs.run(worker); });
  pairs.finish(factor, moments);
}

}  // namespace densefield
