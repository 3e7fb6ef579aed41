// One pass over the data, cut into items of work that any thread may take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "grid_kernels.hpp"
#include "grid_plan.hpp"

namespace densefield {

// Rows of the axis that one item covers: its blocks then stay within a usual L2 cache.
inline constexpr std::int64_t kItemRows = 512;
// Rows of a block in scratch memory; the cells of a very wide kernel hold more and are not packed.
inline constexpr std::int64_t kBlockRows = 4 * kItemRows;

// An item is a block of lanes and a range of rows. How a pass is cut depends on its shape alone, and every
// number is computed within one item, so the number of threads cannot change a bit of the result.
class GridItems {
 public:
  GridItems(const GridKernels& kernels, const GridPass& pass, const float* in, float* out)
      : kernels_(kernels), pass_(pass), cells_{pass.axis->starts.data(), pass.axis->weights.data()}, in_(in),
        out_(out), lanes_(pass.outer * pass.inner) {
    const GridAxis& axis = *pass.axis;
    // Splat is cut by nodes, slice by cells, blur by rows.
    range_ = pass.step == GridStep::slice ? axis.cells() : pass.n_out;
    step_ = kItemRows;
    if (pass.step != GridStep::blur)
      step_ = std::max<std::int64_t>(kItemRows * axis.cells() / axis.pixels, 2 * kGridSupport);
    blocks_ = (lanes_ + kGridLanes - 1) / kGridLanes;
    ranges_ = (range_ + step_ - 1) / step_;
  }

  std::int64_t count() const { return blocks_ * ranges_; }

  // Floats of scratch memory that run() needs.
  static std::size_t scratch(const GridPass& pass) {
    const std::int64_t rows = pass.step == GridStep::blur ? kItemRows + 2 * pass.axis->radius : kBlockRows;
    return static_cast<std::size_t>((std::min(rows, pass.n_in) + std::min(kBlockRows, pass.n_out)) * kGridLanes);
  }

  void run(std::int64_t item, float* scratch) const {
    const std::int64_t begin = item % ranges_ * step_, end = std::min(begin + step_, range_);
    const auto [in_begin, in_end] = rows_read(begin, end);
    const auto [out_begin, out_end] = rows_written(begin, end);
    GridPiece from[kGridLanes], to[kGridLanes];
    const int pieces = cut(item / ranges_ * kGridLanes, in_begin, out_begin, from, to);
    const int lanes = to[pieces - 1].lane + to[pieces - 1].length;

    const bool too_long = in_end - in_begin > kBlockRows || out_end - out_begin > kBlockRows;
    if (too_long && pass_.step != GridStep::blur) {  // straight from array to array
      for (int p = 0; p < pieces; ++p)
        apply({in_ + from[p].offset - in_begin * pass_.inner, pass_.inner}, in_begin, in_end, begin, end,
              out_ + to[p].offset, pass_.inner, to[p].length);
      return;
    }
    kernels_.pack(in_, pass_.inner, from, pieces, in_end - in_begin, scratch);
    const GridRows block{scratch - in_begin * kGridLanes, kGridLanes};
    if (pieces == 1 && lanes == kGridLanes) {
      apply(block, in_begin, in_end, begin, end, out_ + to[0].offset, pass_.inner, lanes);
      return;
    }
    // The lanes that fill up the last vector hold what was there before: computed, never read.
    float* result = scratch + (in_end - in_begin) * kGridLanes;
    apply(block, in_begin, in_end, begin, end, result, kGridLanes, (lanes + 15) / 16 * 16);
    kernels_.unpack(result, to, pieces, out_end - out_begin, out_, pass_.inner);
  }

 private:
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
  int cut(std::int64_t lane, std::int64_t in_row, std::int64_t out_row, GridPiece* from, GridPiece* to) const {
    const std::int64_t stop = std::min(lane + kGridLanes, lanes_);
    std::int64_t outer = lane / pass_.inner, column = lane % pass_.inner;
    int pieces = 0, filled = 0;
    while (lane < stop) {
      const int length = static_cast<int>(std::min(pass_.inner - column, stop - lane));
      from[pieces] = {(outer * pass_.n_in + in_row) * pass_.inner + column, filled, length};
      to[pieces] = {(outer * pass_.n_out + out_row) * pass_.inner + column, filled, length};
      ++pieces;
      filled += length;
      lane += length;
      ++outer;
      column = 0;
    }
    return pieces;
  }

  void apply(GridRows rows, std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end, float* out,
             std::int64_t stride, int lanes) const {
    switch (pass_.step) {
      case GridStep::splat:
        return kernels_.splat(rows, cells_, begin, end, out, stride, lanes);
      case GridStep::slice:
        return kernels_.slice(rows, cells_, begin, end, out, stride, lanes);
      default:
        return kernels_.blur(rows, from, to, pass_.taps, pass_.axis->radius, begin, end, out, stride, lanes);
    }
  }

  const GridKernels& kernels_;
  const GridPass& pass_;
  const GridCells cells_;
  const float* in_;
  float* out_;
  std::int64_t lanes_, range_, step_, blocks_, ranges_;
};

}  // namespace densefield
