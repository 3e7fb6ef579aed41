// From moments between vertices to those between points: what differs is measured at each point, on pairs whose moments
// between points are cheap.
#include <vector>

#include "vertex_moments.hpp"

namespace densefield {

namespace {

// Points of a chunk in rows (1, x), x seen from the middle of them all: near the origin less is lost to rounding.
class CentredPoints {
 public:
  explicit CentredPoints(const Lattice& lattice)
      : lattice_(lattice), dimension_(lattice.embedding.dimension), middle_{} {
    const std::int64_t step = std::max<std::int64_t>(lattice.points / 1024, 1);
    const std::int64_t samples = (lattice.points + step - 1) / step;
    for (std::int64_t point = 0; point < lattice.points; point += step)
      for (int e = 0; e < dimension_; ++e) middle_[e] += at(point, e) / static_cast<double>(samples);
  }

  // Where `present` (points) is given, rows are multiplied by it.
  void fill(std::int64_t chunk, const float* present, int width, float* rows) const {
    if (lattice_.features.is_double)
      fill_from<double>(chunk, width, rows);
    else
      fill_from<float>(chunk, width, rows);
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

  template <class Real>
  void fill_from(std::int64_t chunk, int width, float* rows) const {
    const std::int64_t first = lattice_.chunk_begin(chunk);
    const auto* from = static_cast<const Real*>(lattice_.features.row(dimension_, first));
    const std::int64_t points = lattice_.chunk(chunk).points;
    Real middle[max_dimension];
    std::copy(middle_, middle_ + max_dimension, middle);
    for (std::int64_t point = 0; point < points; ++point, from += dimension_, rows += width) {
      rows[0] = 1;
      for (int e = 0; e < dimension_; ++e) rows[1 + e] = static_cast<float>(from[e] - middle[e]);
      for (int e = dimension_ + 1; e < width; ++e) rows[e] = 0;
    }
  }

  const Lattice& lattice_;
  const int dimension_;
  double middle_[max_dimension];
};

}  // namespace

// With y_i (K·1)_i = sums_i, and w = y + more, `moments` becomes factor · (moments - E) + P, where E is of the pairs
// (y_i, 1) between vertices and P = Σ_ij k(i,j) w_i (x_i - x_j)(x_i - x_j)ᵀ between points, for which
// Σ_i (w_i (K·1)_i + (Kᵀw)_i) x_i x_iᵀ - 2 w_i x_i (K·x)_iᵀ is made symmetric. 1 stands for `present`, and x on the right
// of K for present x, where it is given.
void LatticeFilter::pair_moments(const float* sums, const float* more, const float* present, double factor,
                                 float magnitude, double* moments, int threads) const {
  if (lattice_.points == 0) return;
  const CentredPoints centred(lattice_);
  VertexMoments between_vertices(*this);
  const int d = lattice_.embedding.dimension, row = between_vertices.packed_row(), lanes = more ? 2 : 1;  // of y, and of w
  const auto vertices = static_cast<std::size_t>(lattice_.vertices);
  Buffer<float> local(static_cast<std::size_t>(lattice_.slots() * row)), moved(vertices * row), one(vertices);
  Buffer<float> plain(vertices), carried(vertices * lanes), space(vertices * between_vertices.packed_row());
  threads = worth(threads, {1, row});
  const std::int64_t chunk_floats = lattice_.chunk_points * row;
  const auto products_size = static_cast<std::size_t>(row * row);
  Buffer<float> chunk_rows(static_cast<std::size_t>(threads * 2 * chunk_floats)), around(lattice_.points);
  Buffer<float> chunk_numbers(static_cast<std::size_t>(threads * 2 * lattice_.chunk_points));
  std::vector<double> parts(static_cast<std::size_t>(lattice_.chunks()) * products_size, 0.0);
  Queue first_queue(lattice_.chunks()), second_queue(lattice_.chunks()), third_queue(lattice_.chunks());

  parallel(threads, [&](const Worker& worker) {
    const auto [low, high] = VertexMoments::share(worker, lattice_.vertices);
    float* x = chunk_rows.data() + worker.index * 2 * chunk_floats;  // (points, row): 1 and x
    float* filtered = x + chunk_floats;                              // K·1 and K·x; y and w; Kᵀ of them
    float* weights = chunk_numbers.data() + worker.index * 2 * lattice_.chunk_points;  // (points)
    float* ys = weights + lattice_.chunk_points;
    std::int64_t chunk;
    const auto splat_chunk = [&](const float* values, int width) {
      const std::int64_t slot = lattice_.chunk_slots[chunk], slots = lattice_.chunk_slots[chunk + 1] - slot;
      kernels_.splat[row_kind(width)](lattice_.chunk(chunk), values, width, width, local.data() + slot * width, slots);
    };
    const auto slice_chunk = [&](const Buffer<float>& rows, int width) {
      kernels_.slice[row_kind(width)](lattice_.chunk(chunk), rows.data(), filtered, width, width);
    };
    const auto add_products = [&](const float* other, const float* weight) {
      kernels_.products[row_kind(row)](x, other, weight, lattice_.chunk(chunk).points,
                                       parts.data() + chunk * products_size);
    };

    between_vertices.place(worker);
    while (first_queue.next(chunk)) {
      centred.fill(chunk, present, row, x);
      splat_chunk(x, row);
    }
    worker.sync();
    gather(worker, row_kind(row), local.data(), magnitude, moved.data());
    for (std::int64_t vertex = low; vertex < high; ++vertex) one[vertex] = moved[vertex * row];
    blur(worker, row_kind(row), moved.data(), false);
    worker.sync();

    while (second_queue.next(chunk)) {
      const std::int64_t first = lattice_.chunk_begin(chunk), points = lattice_.chunk(chunk).points;
      centred.fill(chunk, nullptr, row, x);
      slice_chunk(moved, row);
      for (std::int64_t point = 0; point < points; ++point) {
        const float total = filtered[point * row], sum = sums[first + point];
        const float y = total > 0 ? sum / total : 0;
        ys[point] = y;
        weights[point] = -2 * (more ? y + more[first + point] : y);
        around[first + point] = more ? sum + more[first + point] * total : sum;
      }
      add_products(filtered, weights);
      for (std::int64_t point = 0; point < points; ++point) {
        filtered[point * lanes] = ys[point];
        if (more) filtered[point * lanes + 1] = ys[point] + more[first + point];
      }
      splat_chunk(filtered, lanes);
    }
    worker.sync();
    gather(worker, row_kind(lanes), local.data(), magnitude, carried.data());
    for (std::int64_t vertex = low; vertex < high; ++vertex) plain[vertex] = carried[vertex * lanes];
    blur(worker, row_kind(lanes), carried.data(), true);
    worker.sync();

    while (third_queue.next(chunk)) {
      const std::int64_t first = lattice_.chunk_begin(chunk), points = lattice_.chunk(chunk).points;
      centred.fill(chunk, nullptr, row, x);
      slice_chunk(carried, lanes);
      for (std::int64_t point = 0; point < points; ++point) {
        const float back = filtered[point * lanes + lanes - 1];
        weights[point] = around[first + point] + (present ? present[first + point] * back : back);
      }
      add_products(x, weights);
    }
    between_vertices.add_one(worker, {plain.data(), 1}, {carried.data(), lanes}, {one.data(), 1}, space.data());
  });

  std::vector<double> of_one(static_cast<std::size_t>(d) * d, 0.0), of_points(products_size, 0.0);
  between_vertices.finish(1.0 / magnitude, of_one.data());  // the magnitude stands in the sums of either side
  for (std::size_t i = 0; i < parts.size(); ++i) of_points[i % products_size] += parts[i];
  for (int e = 0; e < d; ++e)
    for (int f = 0; f < d; ++f)
      moments[e * d + f] = factor * (moments[e * d + f] - of_one[e * d + f]) +
                           (of_points[(e + 1) * row + f + 1] + of_points[(f + 1) * row + e + 1]) / 2;
}

}  // namespace densefield
