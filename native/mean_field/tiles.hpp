// Data of forward and backward passes: values at vertices, sums of chunks, and tiles of points.
#pragma once

#include <cstring>

#include "base/compiler.hpp"
#include "mean_field/mean_field.hpp"

namespace densefield {

// Values at the vertices of one lattice for all classes, block by block; `arrays` of them, for moments.
class Field {
 public:
  Field(const Coupling& coupling, const Tiling& tiling, int arrays)
      : coupling_(coupling),
        tiling_(tiling),
        rows_stride_(coupling.filter->lattice().vertices * tiling.width),
        rows_(static_cast<std::size_t>(arrays * rows_stride_)) {}

  float* rows(int array = 0) { return rows_.data() + array * rows_stride_; }
  std::int64_t rows_stride() const { return rows_stride_; }
  std::int64_t vertices() const { return coupling_.filter->lattice().vertices; }

  // rows = factor · Σ of the chunks' sums, also in `copy` if given
  void gather(const Worker& worker, const float* local, float factor, int array, Field* copy = nullptr) {
    const std::int64_t slots = coupling_.filter->lattice().slots();
    for (int block = 0; block < tiling_.blocks(); ++block) {
      const std::int64_t at = block * max_row * vertices();
      coupling_.filter->gather(worker, row_kind(tiling_.block_row(block)), local + block * max_row * slots, factor,
                               rows(array) + at, copy ? copy->rows() + at : nullptr);
    }
  }

  void blur(const Worker& worker, bool adjoint, int array) {
    for (int block = 0; block < tiling_.blocks(); ++block)
      coupling_.filter->blur(worker, row_kind(tiling_.block_row(block)), rows(array) + block * max_row * vertices(),
                             adjoint);
  }

 private:
  const Coupling& coupling_;
  const Tiling& tiling_;
  std::int64_t rows_stride_;
  Buffer<float> rows_;
};

// First slot of a unit's chunks, and the end.
inline std::pair<std::int64_t, std::int64_t> slots_of(const Lattice& lattice, const Tiling& tiling, std::int64_t unit) {
  const std::int64_t chunks = tiling.unit_points / lattice.chunk_points;
  return {lattice.chunk_slots[unit * chunks], lattice.chunk_slots[std::min((unit + 1) * chunks, lattice.chunks())]};
}

// Sums of each chunk for one lattice and all classes; `arrays` of them, for moments.
class ChunkSums {
 public:
  ChunkSums(const Coupling& coupling, const Tiling& tiling, int arrays)
      : lattice_(coupling.filter->lattice()),
        tiling_(tiling),
        stride_(lattice_.slots() * tiling.width),
        sums_(static_cast<std::size_t>(arrays * stride_)) {}

  float* sums(int array = 0) { return sums_.data() + array * stride_; }

  // Zeroes the sums of a unit's chunks.
  void clear(std::int64_t unit, int arrays) {
    const auto [first, last] = slots_of(lattice_, tiling_, unit);
    for (int array = 0; array < arrays; ++array)
      for_columns(tiling_.num_classes, [&, begin = first, count = last - first](int before, int row) {
        std::memset(sums(array) + before * lattice_.slots() + begin * row, 0, count * row * sizeof(float));
      });
  }

 private:
  const Lattice& lattice_;
  const Tiling& tiling_;
  std::int64_t stride_;
  Buffer<float> sums_;
};

// One worker's copy of the rows of vertices that a unit's points touch, in the order of its slots: contiguous, and found
// without vertex_of_slot.
class SlotRows {
 public:
  SlotRows(const Coupling& coupling, const Tiling& tiling) : filter_(*coupling.filter), tiling_(tiling) {
    std::int64_t most = 0;
    for (std::int64_t unit = 0; unit < tiling.units(); ++unit) {
      const auto [first, last] = slots_of(filter_.lattice(), tiling, unit);
      most = std::max(most, last - first);
    }
    rows_ = Buffer<float>(static_cast<std::size_t>(most * tiling.width));
  }

  // Copies from rows of all vertices.
  void pick(std::int64_t unit, const float* rows) {
    const Lattice& lattice = filter_.lattice();
    const auto [first, last] = slots_of(lattice, tiling_, unit);
    first_ = first;
    count_ = last - first;
    for (int block = 0; block < tiling_.blocks(); ++block)
      filter_.kernels().pick[row_kind(tiling_.block_row(block))](
          Columns<const float>::of(rows + block * max_row * lattice.vertices, lattice.vertices),
          lattice.vertex_of_slot.data() + first, count_, Columns<float>::of(of_block(block), count_));
  }

  // From a chunk's first slot on.
  Columns<const float> of_chunk(int block, std::int64_t chunk_slot) {
    return Columns<const float>::of(of_block(block), count_).from(chunk_slot - first_, tiling_.block_row(block));
  }

 private:
  float* of_block(int block) { return rows_.data() + block * max_row * count_; }

  const LatticeFilter& filter_;
  const Tiling& tiling_;
  Buffer<float> rows_;
  std::int64_t first_ = 0, count_ = 0;
};

// A tile of points and its position in one lattice.
struct Place {
  std::int64_t first;  // first point
  int points;
  Chunk chunk;
  std::int64_t within;  // first point of the tile relative to the chunk's
  std::int64_t chunk_slot;

  Place(const Lattice& lattice, std::int64_t first_point, int count)
      : first(first_point),
        points(count),
        chunk(lattice.chunk(first / lattice.chunk_points)),
        within(first % lattice.chunk_points),
        chunk_slot(lattice.chunk_slots[first / lattice.chunk_points]) {}
};

inline constexpr float zeros[kTile] = {};

// Splat and slice between a tile in rows and one lattice.
class Corners {
 public:
  Corners(const Coupling& coupling, const Tiling& tiling, const TileKernels& kernels, std::int64_t first, int points)
      : place_(coupling.filter->lattice(), first, points),
        lattice_(coupling.filter->lattice()),
        tiling_(tiling),
        kernels_(kernels) {}

  // tile = base + scale · factor · S·rows; base is zero if null, and may be the tile
  void slice(SlotRows& rows, const float* factor, float scale, const float* base, float* tile) const {
    for (int block = 0; block < tiling_.blocks(); ++block)
      kernels_.slice_tile[kind(block)](place_.chunk, place_.within, place_.points,
                                       rows.of_chunk(block, place_.chunk_slot), factor + place_.first, scale,
                                       base ? of_tile(block, base) : Columns<const float>{}, of_tile(block, tile));
  }

  // local += Sᵀ·(factor · tile + shift); `factor` and `shift` are for the tile's points
  void splat(const float* tile, const float* factor, const float* shift, float* local) const {
    for (int block = 0; block < tiling_.blocks(); ++block)
      kernels_.splat_tile[kind(block)](place_.chunk, place_.within, place_.points, of_tile(block, tile), factor, shift,
                                       of_slots(block, local));
  }

  // slope (points of the tile, arrays) += scale · factor · tile · S·rows of every array
  void slice_slopes(const float* rows, std::int64_t stride, int arrays, const float* factor, float scale,
                    const float* tile, float* slope) const {
    for (int block = 0; block < tiling_.blocks(); ++block)
      kernels_.slice_slopes[kind(block)](place_.chunk, place_.within, place_.points, of_vertices(block, rows), stride,
                                         factor + place_.first, scale, of_tile(block, tile), arrays, slope);
  }

 private:
  int kind(int block) const { return row_kind(tiling_.block_row(block)); }
  template <class Float>
  static Columns<Float> of_tile(int block, Float* tile) {
    return Columns<Float>::of(tile + block * max_row * kTile, kTile);
  }
  Columns<const float> of_vertices(int block, const float* rows) const {
    return Columns<const float>::of(rows + block * max_row * lattice_.vertices, lattice_.vertices);
  }
  // From the chunk's first slot on.
  Columns<float> of_slots(int block, float* local) const {
    return Columns<float>::of(local + block * max_row * lattice_.slots(), lattice_.slots())
        .from(place_.chunk_slot, tiling_.block_row(block));
  }

  Place place_;
  const Lattice& lattice_;
  const Tiling& tiling_;
  const TileKernels& kernels_;
};

// Calls task(first point, points) for every tile of a unit.
template <class Task>
void for_tiles(const Tiling& tiling, std::int64_t unit, const Task& task) {
  const std::int64_t end = std::min((unit + 1) * tiling.unit_points, tiling.points);
  for (std::int64_t first = unit * tiling.unit_points; first < end; first += kTile)
    task(first, static_cast<int>(std::min<std::int64_t>(kTile, end - first)));
}

// Loads a tile of planes from an array (classes, points), in pixel order if given; points beyond the last are zero.
inline void load_tile(const TileKernels& kernels, const Tiling& tiling, const PixelOrder* order, const float* array,
                      std::int64_t first, int points, float* planes) {
  if (points < kTile) std::fill_n(planes, tiling.plane_floats(), 0.0f);
  if (!order) return kernels.load(array + first, tiling.points, tiling.num_classes, points, planes);
  order->for_runs(first, first + points, [&](const Run& run) {
    kernels.load(array + run.pixel, tiling.points, tiling.num_classes, run.count, planes + run.position - first);
  });
}

// Stores a tile of planes in an array.
inline void store_tile(const TileKernels& kernels, const Tiling& tiling, const PixelOrder* order, const float* planes,
                       std::int64_t first, int points, float* array) {
  if (!order) return kernels.store(planes, tiling.num_classes, points, array + first, tiling.points);
  order->for_runs(first, first + points, [&](const Run& run) {
    kernels.store(planes + run.position - first, tiling.num_classes, run.count, array + run.pixel, tiling.points);
  });
}

// Adds a tile of planes to an array.
inline void add_tile(const TileKernels& kernels, const Tiling& tiling, const PixelOrder* order, const float* planes,
                     std::int64_t first, int points, float* array) {
  if (!order) return kernels.add(planes, tiling.num_classes, points, array + first, tiling.points);
  order->for_runs(first, first + points, [&](const Run& run) {
    kernels.add(planes + run.position - first, tiling.num_classes, run.count, array + run.pixel, tiling.points);
  });
}

// Prefetches contiguous numbers.
inline void prefetch(const float* from, std::int64_t floats) {
  for (std::int64_t i = 0; i < floats; i += 16) DENSEFIELD_PREFETCH(from + i);
}

// Prefetches a tile of an array (classes, points).
inline void prefetch_planes(const float* from, const Tiling& tiling, const PixelOrder* order, std::int64_t place) {
  if (place >= tiling.points) return;
  const std::int64_t first = order ? order->pixel(place) : place;
  for (int label = 0; label < tiling.num_classes; ++label)
    for (int p = 0; p < kTile; p += 16)
      DENSEFIELD_PREFETCH(from + label * tiling.points + std::min(first + p, tiling.points - 1));
}

}  // namespace densefield
