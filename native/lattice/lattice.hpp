// The permutohedral lattice of a set of points: vertices, barycentric weights and neighbours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.hpp"
#include "lattice/keys.hpp"
#include "simd/dispatch.hpp"

namespace densefield {

struct Features {
  const void* data;  // (points, dimension), float32 or float64
  bool is_double;
  std::int64_t points;

  std::int64_t row_bytes(int dimension) const {
    return dimension * static_cast<std::int64_t>(is_double ? sizeof(double) : sizeof(float));
  }
  const void* row(int dimension, std::int64_t point) const {
    return static_cast<const char*>(data) + point * row_bytes(dimension);
  }
};

// Chains of neighbouring vertices along one axis, for the blur kernel; vertices without neighbours are omitted.
struct Chains {
  std::vector<std::int32_t> vertices;  // the last of each chain is stored as its complement
  std::vector<std::int64_t> blocks;    // starts of blocks of whole chains, and the end
};

// Points are divided into chunks, the same for any number of threads. Each chunk numbers the vertices it touches (its
// slots), so that it splats independently of others; `slots_of_vertex` joins the sums of chunks.
struct Lattice {
  Embedding embedding;
  Buffer<char> memory;  // owned copy of the features
  Features features{nullptr, false, 0};
  std::int64_t points = 0;
  std::int64_t vertices = 0;
  std::int64_t chunk_points = 0;

  Buffer<std::uint16_t> ids;   // (points, d+1): slot within the chunk
  Buffer<float> weights;       // (points, d+1)
  Buffer<std::uint8_t> order;  // (points, d+1): coordinate of each rank, largest residual first

  std::vector<std::int64_t> chunk_slots;  // first slot of each chunk, and the end
  Buffer<std::int32_t> vertex_of_slot;    // (slots)
  Buffer<std::int32_t> slots_begin;       // (vertices + 1)
  Buffer<std::int32_t> slots_of_vertex;   // (slots), in order of chunks for each vertex
  std::vector<Chains> chains;             // one per axis
  Buffer<Key> keys;                       // (vertices); capacity may be larger
  std::unique_ptr<KeyCode> code;

  int corners() const { return embedding.dimension + 1; }
  std::int64_t chunks() const { return static_cast<std::int64_t>(chunk_slots.size()) - 1; }
  std::int64_t slots() const { return chunk_slots.back(); }
  std::int64_t chunk_begin(std::int64_t chunk) const { return chunk * chunk_points; }
  Chunk chunk(std::int64_t index) const;
};

// `halo`: rings of neighbours added around the vertices that points touch. Throws std::domain_error for features that
// are not finite, std::overflow_error if keys overflow and std::length_error for more points than 32-bit indices
// allow.
Lattice build_lattice(const Embedding& embedding, const Features& features, int halo, const LatticeKernels& kernels,
                      int threads);

}  // namespace densefield
