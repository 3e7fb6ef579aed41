// Second moments between vertices, for the derivative of a lattice's sums by the kernel's shape.
#pragma once

#include "lattice/filter.hpp"

namespace densefield {

// Σ_uv B(u,v) (a_u·b_v) (p_u - p_v)(p_u - p_v)ᵀ for splatted values a and b, the blur B and the vertices' features p.
// It follows from a·(B b), (Bᵀ a)·b and a·(B (p b)), which are summed over channels, blocks of channels and calls
// before they are multiplied by p. The method is described in densefield/filters/moments.py.
class VertexMoments {
 public:
  explicit VertexMoments(const LatticeFilter& filter);

  // Computes the centred features of vertices. All workers must call it before anything is added.
  void locate(const Worker& worker);

  // Adds one block of channels: a and b (vertices) in Columns, with Bᵀ a and B b complete at this worker's vertices;
  // `space` has the size of b.
  void add(const Worker& worker, int kind, const float* a, const float* blurred_a, const float* b,
           const float* blurred_b, float* space);

  // One channel of rows.
  struct Lane {
    const float* rows;
    int row;
    float operator[](std::int64_t vertex) const { return rows[vertex * row]; }
  };
  // The same for one channel: `space` (vertices) of packed_row() holds b and all p b side by side for a single blur.
  void add_one(const Worker& worker, Lane a, Lane blurred_a, Lane b, float* space);
  int packed_row() const { return std::max(padded_row(1 + dimension_), 4); }  // odd rows are slow

  // moments (d, d) += factor · Σ, after all workers have finished.
  void finish(double factor, double* moments) const;

  // The vertices of this worker, here and in gather().
  static std::pair<std::int64_t, std::int64_t> share(const Worker& worker, std::int64_t vertices) {
    return worker.share(vertices, LatticeFilter::share_grain);
  }

 private:
  const LatticeFilter& filter_;
  int dimension_;
  double middle_[max_dimension];
  Buffer<float> centred_;   // (vertices, d): p
  Buffer<float> diagonal_;  // (vertices): a·(B b) + (Bᵀ a)·b
  Buffer<float> moved_;     // (vertices, d): a·(B (p b))
};

}  // namespace densefield
