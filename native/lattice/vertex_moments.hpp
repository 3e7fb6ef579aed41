// Second moments of what a lattice's blur carries from vertex to vertex: how its sums change with the kernel's shape.
#pragma once

#include "lattice/filter.hpp"

namespace densefield {

// With a and b the sums of two sides at the vertices, before the blur B, and p the vertices' places in feature space,
// Σ_uv B(u,v) (a_u·b_v) (p_u - p_v)(p_u - p_v)ᵀ. It is found from a·(B b), (Bᵀ a)·b and a·(B (p b)), each summed over
// channels, blocks of channels and calls before it is multiplied by places.
class VertexMoments {
 public:
  explicit VertexMoments(const LatticeFilter& filter);

  // The vertices' places, from somewhere in their middle; all workers take part, before anything is added.
  void place(const Worker& worker);

  // One block of channels: a and b (vertices) in Columns, with Bᵀ a and B b, whole at the worker's own vertices; `space` is
  // as large as b.
  void add(const Worker& worker, int kind, const float* a, const float* blurred_a, const float* b,
           const float* blurred_b, float* space);

  // One channel of rows.
  struct Lane {
    const float* rows;
    int row;
    float operator[](std::int64_t vertex) const { return rows[vertex * row]; }
  };
  // The same for a and b of one channel: `space` (vertices) of packed_row() holds b and all p b side by side, so that one
  // blur does for all.
  void add_one(const Worker& worker, Lane a, Lane blurred_a, Lane b, float* space);
  int packed_row() const { return std::max(padded_row(1 + dimension_), 4); }  // odd rows are slow

  // moments (d, d) += factor · Σ, once all workers are done.
  void finish(double factor, double* moments) const;

  // The vertices that a worker looks after, here and in gather().
  static std::pair<std::int64_t, std::int64_t> share(const Worker& worker, std::int64_t vertices) {
    return worker.share(vertices, LatticeFilter::share_grain);
  }

 private:
  const LatticeFilter& filter_;
  int dimension_;
  double middle_[max_dimension];
  Buffer<float> places_;  // (vertices, d)
  Buffer<float> met_;     // (vertices): a·(B b) + (Bᵀ a)·b
  Buffer<float> moved_;   // (vertices, d): a·(B (p b))
};

}  // namespace densefield
