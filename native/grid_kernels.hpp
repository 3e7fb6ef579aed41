// What the Gaussian on a pixel grid needs from one instruction set.
//
// Along one axis an array is seen as (outer, n, inner) with `inner` contiguous. Every (outer, inner) pair is
// a lane: the filter does the same to each, so lanes fill the vector registers. A block is some lanes side by
// side, the rows of the axis below one another.
#pragma once

#include <cstdint>

namespace densefield {

inline constexpr int kGridLanes = 256;  // most lanes of a block
inline constexpr int kGridSupport = 8;  // nodes of the coarse grid that one pixel touches
inline constexpr int kBlurTile = 4;     // rows that the blur computes at a time
inline constexpr int kLineSlack = 64;

// A run of lanes that are neighbours in memory too.
struct GridPiece {
  std::int64_t offset;  // of the run's first number in row 0
  int lane;             // where it starts in the block
  int length;
};

// One side of a kernel: row r stands at data + r * stride.
struct GridRows {
  const float* data;
  std::int64_t stride;
};

// Pixels on a coarser grid of nodes: pixel i touches the nodes cell(i) … cell(i) + kGridSupport - 1.
struct GridCells {
  const std::int64_t* starts;  // (nodes + 1,) first pixel of each cell; empty cells at the end
  const float* weights;        // (pixels, kGridSupport)
};

struct GridKernels {
  // Copies `rows` rows of every piece into a block, and back.
  void (*pack)(const float* array, std::int64_t stride, const GridPiece* pieces, int count, std::int64_t rows,
               float* block, std::int64_t block_stride);
  void (*unpack)(const float* block, std::int64_t block_stride, const GridPiece* pieces, int count,
                 std::int64_t rows, float* array, std::int64_t stride);

  // out_i = Σ_j taps[|i-j|] in_j for begin <= i < end, over the rows j with from <= j < to.
  // `taps` holds 2·radius + 1 taps between kBlurTile - 1 zeros on either side.
  void (*blur)(GridRows in, std::int64_t from, std::int64_t to, const float* taps, int radius,
               std::int64_t begin, std::int64_t end, float* out, std::int64_t out_stride, int lanes);

  // The same along a line of memory whose rows are `stride` apart and lie between enough zeros:
  // out_x = Σ_r taps[|r|] line_(x + r·stride) for 0 <= x < count. It may read kLineSlack numbers more.
  void (*blur_line)(const float* line, std::int64_t stride, const float* taps, int radius, std::int64_t count,
                    float* out);

  // out_a = Σ_i weight(i, a) in_i for the nodes begin <= a < end, written to rows 0 … end - begin - 1.
  void (*splat)(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                std::int64_t out_stride, int lanes);

  // out_i = Σ_a weight(i, a) in_a for the pixels of the cells begin <= cell < end; the first of these
  // pixels is written to row 0.
  void (*slice)(GridRows in, GridCells cells, std::int64_t begin, std::int64_t end, float* out,
                std::int64_t out_stride, int lanes);

  // Σ a_i b_i in double precision.
  double (*dot)(const float* a, const float* b, std::int64_t count);
};

}  // namespace densefield
