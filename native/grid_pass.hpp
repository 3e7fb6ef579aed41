// One pass over the data, cut into items of work that any thread may take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "grid_kernels.hpp"
#include "grid_plan.hpp"

namespace densefield {

// Rows of the axis that one item covers: its blocks then stay within a usual L2 cache.
inline constexpr std::int64_t kItemRows = 512;
// Rows of a block in scratch memory; the cells of a very wide kernel may hold more and are not packed.
inline constexpr std::int64_t kBlockRows = 2 * kItemRows;
// Rows that are packed, blurred and unpacked at a time: they are still in the L1 cache when needed next.
inline constexpr std::int64_t kStreamRows = 8;
// Lanes of a block where few of them are neighbours in memory.
inline constexpr std::int64_t kScatteredLanes = 128;
// Numbers per row up to which a blur goes along lines instead: moving so few at a time costs more.
inline constexpr std::int64_t kLineInner = 8;

// An item is a block of lanes and a range of rows. How a pass is cut depends on its shape alone, and every
// number is computed within one item, so the number of threads cannot change a bit of the result.
class GridItems {
 public:
  GridItems(const GridKernels& kernels, const GridPass& pass, const float* in, float* out)
      : kernels_(kernels), pass_(pass), cells_{pass.axis->starts.data(), pass.axis->weights.data()}, in_(in),
        out_(out), lanes_(pass.outer * pass.inner) {
    const GridAxis& axis = *pass.axis;
    along_lines_ = pass.step == GridStep::blur && pass.inner <= kLineInner;
    width_ = pass.inner < kGridLanes ? kScatteredLanes : kGridLanes;
    if (along_lines_) width_ = pass.inner;
    // Blur is cut by rows, splat by nodes, slice by cells.
    range_ = pass.step == GridStep::slice ? axis.cells() : pass.n_out;
    step_ = kItemRows;
    if (pass.step != GridStep::blur)
      step_ = std::max<std::int64_t>(kItemRows * axis.cells() / axis.pixels, 2 * kGridSupport);
    blocks_ = (lanes_ + width_ - 1) / width_;
    ranges_ = (range_ + step_ - 1) / step_;
  }

  std::int64_t count() const { return blocks_ * ranges_; }

  // Floats of scratch memory that run() needs.
  static std::size_t scratch(const GridPass& pass) {
    if (pass.step == GridStep::blur)
      return static_cast<std::size_t>((kItemRows + 2 * pass.axis->radius + kStreamRows) * kGridLanes);
    return static_cast<std::size_t>(2 * kBlockRows * kScatteredLanes);
  }

  void run(std::int64_t item, float* scratch) const {
    Block block;
    block.begin = item % ranges_ * step_;
    block.end = std::min(block.begin + step_, range_);
    std::tie(block.in_begin, block.in_end) = rows_read(block.begin, block.end);
    std::tie(block.out_begin, block.out_end) = rows_written(block.begin, block.end);
    cut(item / ranges_ * width_, block);
    if (along_lines_)
      blur_line(block, scratch);
    else if (pass_.step == GridStep::blur)
      blur(block, scratch);
    else
      resample(block, scratch);
  }

 private:
  struct Block {
    std::int64_t begin, end;          // of the range of rows, nodes or cells
    std::int64_t in_begin, in_end;    // rows that are read
    std::int64_t out_begin, out_end;  // rows that are written
    int pieces, lanes;
    GridPiece from[kGridLanes], to[kGridLanes];
  };

  // Vectors are always full; what the lanes beyond the block's own hold is computed and never read.
  static int whole_vectors(int lanes) { return (lanes + 15) / 16 * 16; }

  void blur(const Block& block, float* scratch) const {
    const std::int64_t inner = pass_.inner, first = block.in_begin;
    const int radius = pass_.axis->radius;
    const bool in_place = block.pieces == 1 && block.lanes == width_;
    float* result = scratch + (block.in_end - first) * width_;
    for (std::int64_t row = block.begin, packed = first; row < block.end; row += kStreamRows) {
      const std::int64_t stop = std::min(row + kStreamRows, block.end);
      const std::int64_t needed = std::min(stop + radius, block.in_end);
      kernels_.pack(in_ + (packed - first) * inner, inner, block.from, block.pieces, needed - packed,
                    scratch + (packed - first) * width_, width_);
      packed = needed;
      float* rows_out = out_ + (row - block.begin) * inner;
      const GridRows rows{scratch - first * width_, width_};
      if (in_place) {
        kernels_.blur(rows, first, needed, pass_.taps, radius, row, stop, rows_out + block.to[0].offset,
                      inner, block.lanes);
      } else {
        kernels_.blur(rows, first, needed, pass_.taps, radius, row, stop, result, width_,
                      whole_vectors(block.lanes));
        kernels_.unpack(result, width_, block.to, block.pieces, stop - row, rows_out, inner);
      }
    }
  }

  // A block is one line here; it is copied between the zeros that stand for the pixels outside.
  void blur_line(const Block& block, float* scratch) const {
    const std::int64_t inner = pass_.inner, margin = pass_.axis->radius * inner;
    const std::int64_t count = (block.end - block.begin) * inner;
    const std::int64_t before = (block.begin - block.in_begin) * inner;
    const std::int64_t after = (block.in_end - block.end) * inner;
    float* line = scratch + margin;
    std::fill(scratch, line - before, 0.0f);
    std::copy_n(in_ + block.from[0].offset, before + count + after, line - before);
    std::fill(line + count + after, line + count + margin + kLineSlack, 0.0f);
    kernels_.blur_line(line, inner, pass_.taps, pass_.axis->radius, count, out_ + block.to[0].offset);
  }

  // Splat or slice: straight from array to array, except where that would leave the vectors empty.
  void resample(const Block& block, float* scratch) const {
    const auto kernel = pass_.step == GridStep::splat ? kernels_.splat : kernels_.slice;
    const std::int64_t inner = pass_.inner, first = block.in_begin;
    const std::int64_t rows_in = block.in_end - first, rows_out = block.out_end - block.out_begin;
    const bool long_pieces = block.pieces == 1 || inner >= kGridLanes;
    if (long_pieces || rows_in > kBlockRows || rows_out > kBlockRows) {
      for (int p = 0; p < block.pieces; ++p)
        kernel({in_ + block.from[p].offset - first * inner, inner}, cells_, block.begin, block.end,
               out_ + block.to[p].offset, inner, block.to[p].length);
      return;
    }
    float* result = scratch + rows_in * width_;
    kernels_.pack(in_, inner, block.from, block.pieces, rows_in, scratch, width_);
    kernel({scratch - first * width_, width_}, cells_, block.begin, block.end, result, width_,
           whole_vectors(block.lanes));
    kernels_.unpack(result, width_, block.to, block.pieces, rows_out, out_, inner);
  }

  std::pair<std::int64_t, std::int64_t> rows_read(std::int64_t begin, std::int64_t end) const {
    const GridAxis& axis = *pass_.axis;
    switch (pass_.step) {
      case GridStep::splat:
        return {axis.starts[std::max<std::int64_t>(begin - (kGridSupport - 1), 0)], axis.starts[end]};
      case GridStep::slice:
        return {begin, end + kGridSupport - 1};
      default:
        return {std::max<std::int64_t>(begin - axis.radius, 0), std::min(end + axis.radius, pass_.n_in)};
    }
  }

  std::pair<std::int64_t, std::int64_t> rows_written(std::int64_t begin, std::int64_t end) const {
    if (pass_.step != GridStep::slice) return {begin, end};
    return {pass_.axis->starts[begin], pass_.axis->starts[end]};
  }

  // The runs of memory that make up the block starting at `lane`, in the input and in the output.
  void cut(std::int64_t lane, Block& block) const {
    const std::int64_t stop = std::min(lane + width_, lanes_);
    std::int64_t outer = lane / pass_.inner, offset = lane % pass_.inner;
    block.pieces = block.lanes = 0;
    while (lane < stop) {
      const int length = static_cast<int>(std::min(pass_.inner - offset, stop - lane));
      const std::int64_t row_in = outer * pass_.n_in + block.in_begin;
      const std::int64_t row_out = outer * pass_.n_out + block.out_begin;
      block.from[block.pieces] = {row_in * pass_.inner + offset, block.lanes, length};
      block.to[block.pieces] = {row_out * pass_.inner + offset, block.lanes, length};
      ++block.pieces;
      block.lanes += length;
      lane += length;
      ++outer;
      offset = 0;
    }
  }

  const GridKernels& kernels_;
  const GridPass& pass_;
  const GridCells cells_;
  const float* in_;
  float* out_;
  bool along_lines_;
  std::int64_t lanes_, width_, range_, step_, blocks_, ranges_;
};

}  // namespace densefield
