#include "lattice/vertex_moments.hpp"

namespace densefield {

namespace {

// The inverse of elevation, whose columns are orthogonal.
void vertex_features(const Lattice& lattice, std::int64_t vertex, double* features) {
  std::int64_t at[max_corners];
  lattice.code->coordinates(lattice.keys.data()[vertex], at);
  double sum = 0;
  for (int i = 0; i < lattice.embedding.dimension; ++i) {
    sum += static_cast<double>(at[i]);
    features[i] = (sum - (i + 1) * static_cast<double>(at[i + 1])) / (lattice.embedding.scale[i] * (i + 1) * (i + 2));
  }
}

}  // namespace

VertexMoments::VertexMoments(const LatticeFilter& filter)
    : filter_(filter),
      dimension_(filter.lattice().embedding.dimension),
      middle_{},
      centred_(static_cast<std::size_t>(filter.lattice().vertices * dimension_)),
      diagonal_(static_cast<std::size_t>(filter.lattice().vertices)),
      moved_(static_cast<std::size_t>(filter.lattice().vertices * dimension_)) {
  const Lattice& lattice = filter_.lattice();
  const std::int64_t step = std::max<std::int64_t>(lattice.vertices / 64, 1);
  const std::int64_t samples = (lattice.vertices + step - 1) / step;
  for (std::int64_t vertex = 0; vertex < lattice.vertices; vertex += step) {
    double features[max_dimension];
    vertex_features(lattice, vertex, features);
    for (int e = 0; e < dimension_; ++e) middle_[e] += features[e] / static_cast<double>(samples);
  }
}

void VertexMoments::locate(const Worker& worker) {
  const auto [first, last] = share(worker, filter_.lattice().vertices);
  for (std::int64_t vertex = first; vertex < last; ++vertex) {
    double features[max_dimension];
    vertex_features(filter_.lattice(), vertex, features);
    diagonal_.data()[vertex] = 0;
    for (int e = 0; e < dimension_; ++e) {
      centred_.data()[vertex * dimension_ + e] = static_cast<float>(features[e] - middle_[e]);
      moved_.data()[vertex * dimension_ + e] = 0;
    }
  }
}

void VertexMoments::add(const Worker& worker, int kind, const float* a, const float* blurred_a, const float* b,
                        const float* blurred_b, float* space) {
  const LatticeKernels& kernels = filter_.kernels();
  const auto columns = [&](const float* rows) { return Columns<const float>::of(rows, filter_.lattice().vertices); };
  const auto [first, last] = share(worker, filter_.lattice().vertices);
  kernels.dot[kind](columns(a), columns(blurred_b), first, last, diagonal_.data(), 1);
  kernels.dot[kind](columns(blurred_a), columns(b), first, last, diagonal_.data(), 1);
  for (int e = 0; e < dimension_; ++e) {
    kernels.scale[kind](columns(b), centred_.data() + e, dimension_, first, last,
                        Columns<float>::of(space, filter_.lattice().vertices));
    filter_.blur(worker, kind, space, false);
    worker.sync();
    kernels.dot[kind](columns(a), columns(space), first, last, moved_.data() + e, dimension_);
  }
}

void VertexMoments::add_one(const Worker& worker, Lane a, Lane blurred_a, Lane b, float* space) {
  const auto [first, last] = share(worker, filter_.lattice().vertices);
  const int row = packed_row();
  const auto packed = Columns<float>::of(space, filter_.lattice().vertices);
  for (std::int64_t vertex = first; vertex < last; ++vertex) {
    packed.at(vertex, row, 0) = b[vertex];
    for (int e = 0; e < dimension_; ++e)
      packed.at(vertex, row, 1 + e) = centred_.data()[vertex * dimension_ + e] * b[vertex];
    for (int e = 1 + dimension_; e < row; ++e) packed.at(vertex, row, e) = 0;
  }
  filter_.blur(worker, row_kind(row), space, false);
  worker.sync();
  for (std::int64_t vertex = first; vertex < last; ++vertex) {
    diagonal_.data()[vertex] += a[vertex] * packed.at(vertex, row, 0) + blurred_a[vertex] * b[vertex];
    for (int e = 0; e < dimension_; ++e)
      moved_.data()[vertex * dimension_ + e] += a[vertex] * packed.at(vertex, row, 1 + e);
  }
}

void VertexMoments::finish(double factor, double* moments) const {
  const std::int64_t vertices = filter_.lattice().vertices;
  double sums[max_dimension * max_dimension] = {};
  for (std::int64_t vertex = 0; vertex < vertices; ++vertex) {
    const float* features = centred_.data() + vertex * dimension_;
    const float* moved = moved_.data() + vertex * dimension_;
    const double diagonal = diagonal_.data()[vertex];
    for (int e = 0; e < dimension_; ++e)
      for (int f = 0; f <= e; ++f)
        sums[e * max_dimension + f] +=
            diagonal * features[e] * features[f] - double{features[e]} * moved[f] - double{features[f]} * moved[e];
  }
  for (int e = 0; e < dimension_; ++e)
    for (int f = 0; f < dimension_; ++f)
      moments[e * dimension_ + f] += factor * sums[std::max(e, f) * max_dimension + std::min(e, f)];
}

}  // namespace densefield
