// The interface of lattice kernels, on raw arrays and one chunk of points, and the layout of rows.
#pragma once

#include <cstdint>

namespace densefield {

inline constexpr int max_dimension = 16;
inline constexpr int max_corners = max_dimension + 1;
inline constexpr int max_row = 32;  // channels are filtered in blocks of at most this many

inline constexpr int column = 16;  // floats of a cache line

// Channels of a row in memory: one or two as they are, more rounded up to a multiple of four.
inline constexpr int padded_row(int channels) { return channels <= 2 ? channels : (channels + 3) / 4 * 4; }
inline constexpr int row_kinds = 10;  // rows of 1, 2, 4, 8, 12, … 32
inline constexpr int row_kind(int row) { return row <= 2 ? row - 1 : row / 4 + 1; }
inline constexpr int row_of(int kind) { return kind < 2 ? kind + 1 : (kind - 1) * 4; }

// Contiguous floats of a row. Most rows of 20 would span two cache lines, which takes twice the time, so their last
// four floats are stored separately.
inline constexpr int head_of(int row) { return row == column + 4 ? column : row; }

// Rows of up to max_row channels: (count, head_of(row)), then the remaining channels of all rows.
template <class Float>
struct Columns {
  Float* head;
  Float* tail;

  static Columns of(Float* rows, std::int64_t count) { return {rows, rows + column * count}; }
  // The rows from `index` on, of `row` floats each.
  Columns from(std::int64_t index, int row) const {
    return {head + index * head_of(row), tail + index * (row - head_of(row))};
  }
  Float& at(std::int64_t index, int row, int channel) const {
    return channel < head_of(row) ? head[index * head_of(row) + channel]
                                  : tail[index * (row - head_of(row)) + channel - head_of(row)];
  }
  operator Columns<const Float>() const { return {head, tail}; }
};

// Elevation of features into the plane of the lattice (Adams et al. 2010): y_j from x_i · scale_i.
struct Embedding {
  int dimension;
  bool single_precision;  // pydensecrf embeds in float32
  double scale[max_dimension];
};

// Keys that fit into one word: origin + Σ_j cell_j · unit_j, modulo 2⁶⁴.
struct NarrowCode {
  std::uint64_t origin;
  std::uint64_t unit[max_dimension];
};

// Bounding box of elevated points in lattice cells, and whether all features are finite.
struct Bounds {
  double low[max_corners];
  double high[max_corners];
  bool finite;
};

// One chunk of points and the vertices of its corners.
struct Chunk {
  std::int64_t points;
  int corners;                   // d + 1
  const std::uint16_t* ids;      // (points, corners): slot of each corner
  const float* weights;          // (points, corners): barycentric weights
  const std::int32_t* vertices;  // vertex of each slot
};

struct LatticeKernels {
  void (*bounds)(const Embedding&, const void* features, bool features_double, std::int64_t points, Bounds&);
  // Cells (points, d) of the corners of remainder 0, or their keys (points) if `code` is given; the coordinate of each
  // rank and the weights of all corners, (points, d+1).
  void (*embed)(const Embedding&, const void* features, bool features_double, std::int64_t points,
                const NarrowCode* code, std::int32_t* cells, std::uint64_t* keys, std::uint8_t* order, float* weights);

  // local[slot] = Σ weight · value over the chunk's points
  void (*splat[row_kinds])(const Chunk&, const float* values, std::int64_t stride, int channels, Columns<float> local,
                           std::int64_t slots);
  // rows[v] = factor · Σ local[slot] over the slots of vertices first…last-1
  void (*gather[row_kinds])(Columns<const float> local, const std::int32_t* begin, const std::int32_t* slots,
                            std::int64_t first, std::int64_t last, float factor, Columns<float> rows);
  // out[i] = rows[vertices[i]] for i < count
  void (*pick[row_kinds])(Columns<const float> rows, const std::int32_t* vertices, std::int64_t count,
                          Columns<float> out);
  // rows += tap · (previous + next) along whole chains, in place
  void (*blur[row_kinds])(Columns<float> rows, const std::int32_t* chain, std::int64_t first, std::int64_t last,
                          float tap);
  // out[point] = Σ weight · rows[vertex]
  void (*slice[row_kinds])(const Chunk&, Columns<const float> rows, float* out, std::int64_t stride, int channels);
  // slopes[point, corner] += a · rows_b[vertex] + b · rows_a[vertex]
  void (*slopes[row_kinds])(const Chunk&, const float* a, const float* b, std::int64_t stride, int channels,
                            Columns<const float> rows_a, Columns<const float> rows_b, float* slopes);
  // out[v] = factor[v · stride] · rows[v] for vertices first…last-1
  void (*scale[row_kinds])(Columns<const float> rows, const float* factor, int stride, std::int64_t first,
                           std::int64_t last, Columns<float> out);
  // sums (row, row) += Σ weight · x yᵀ over points, whose rows are contiguous, in double precision
  void (*products[row_kinds])(const float* x, const float* y, const float* weight, std::int64_t points, double* sums);
  // sums[v · stride] += a[v] · b[v]
  void (*dot[row_kinds])(Columns<const float> a, Columns<const float> b, std::int64_t first, std::int64_t last,
                         float* sums, int stride);
  // Gradient by features from the gradient by barycentric weights.
  void (*pull_back)(const Embedding&, std::int64_t points, const std::uint8_t* order, const float* slopes,
                    float* gradient);
  // Σ_v mass_v · exp(factor · ‖at_v − here‖²) with coordinate j of vertex v at at[j · vertices + v]
  double (*gaussian_sum)(const float* here, int coordinates, const float* at, const float* mass, std::int64_t vertices,
                         float factor);
  double (*gaussian_sum_wide)(const double* here, int coordinates, const double* at, const float* mass,
                              std::int64_t vertices, float factor);
};

}  // namespace densefield
