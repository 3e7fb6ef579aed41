// Bindings of array functions that NumPy would run on one thread in several passes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/buffer.hpp"
#include "base/parallel.hpp"
#include "image/pixel_order.hpp"
#include "python/bindings.hpp"

namespace nb = nanobind;

namespace densefield {

namespace {

using Table = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;  // (points, columns), any strides
using Features = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr std::int64_t piece_points = 1 << 15;  // a multiple of kTile

// Calls task(first point read, first point written, number) for points contiguous in both orders.
template <class Task>
void for_points(std::int64_t points, const PixelOrder* order, int threads, const Task& task) {
  const ReleasedGil released;
  parallel_for(threads, (points + piece_points - 1) / piece_points, [&](std::int64_t piece, int) {
    const std::int64_t first = piece * piece_points, last = std::min(first + piece_points, points);
    if (!order) return task(first, first, last - first);
    order->for_runs(first, last, [&](const Run& run) { task(run.pixel, run.position, run.count); });
  });
}

template <class Number>
void fill(const Table& columns, const std::vector<float>& widths, const Features& out, std::int64_t offset,
          const PixelOrder* order, int threads) {
  const auto* from = static_cast<const Number*>(columns.data());
  const std::int64_t point = columns.stride(0), column = columns.stride(1);
  const auto points = static_cast<std::int64_t>(columns.shape(0)), stride = static_cast<std::int64_t>(out.shape(1));
  float* to = out.data() + offset;
  for_points(points, order, threads, [&](std::int64_t read, std::int64_t written, std::int64_t count) {
    for (std::size_t c = 0; c < widths.size(); ++c)
      for (std::int64_t i = 0; i < count; ++i)
        to[(written + i) * stride + c] = static_cast<float>(from[(read + i) * point + c * column]) / widths[c];
  });
}

// out[:, offset + c] = columns[:, c] / widths[c], in pixel order if given.
void fill_features(const Table& columns, const std::vector<float>& widths, const Features& out, std::int64_t offset,
                   const PixelOrder* order, int threads) {
  require(columns.shape(1) == widths.size(), "one width per column");
  require(out.shape(0) == columns.shape(0) && offset >= 0 && offset + columns.shape(1) <= out.shape(1),
          "out has no room for the columns");
  require(!order || static_cast<std::size_t>(order->num_pixels()) == columns.shape(0),
          "the pixel order has another number of points");
  check_threads(threads);
  if (columns.dtype() == nb::dtype<std::uint8_t>())
    fill<std::uint8_t>(columns, widths, out, offset, order, threads);
  else if (columns.dtype() == nb::dtype<float>())
    fill<float>(columns, widths, out, offset, order, threads);
  else if (columns.dtype() == nb::dtype<double>())
    fill<double>(columns, widths, out, offset, order, threads);
  else
    throw std::invalid_argument("columns must be uint8, float32 or float64");
}

using Line = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// out[:, columns[a]] = lines[a][i_a] for the pixels (i_0, i_1, …) of a grid, in pixel order if given.
void fill_grid(const std::vector<Line>& lines, const std::vector<std::int64_t>& columns, const Features& out,
               const PixelOrder* order, int threads) {
  const auto stride = static_cast<std::int64_t>(out.shape(1));
  require(!lines.empty() && columns.size() == lines.size(), "one column per line");
  for (const std::int64_t column : columns) require(column >= 0 && column < stride, "out has no room for the columns");
  std::size_t points = 1;
  for (const Line& line : lines) points *= line.shape(0);
  require(out.shape(0) == points, "out is for another number of points");
  require(!order || static_cast<std::size_t>(order->num_pixels()) == points,
          "the pixel order has another number of points");
  check_threads(threads);
  const std::size_t last = lines.size() - 1;
  const auto width = static_cast<std::int64_t>(lines[last].shape(0));
  float* const all = out.data();
  for_points(out.shape(0), order, threads, [&](std::int64_t read, std::int64_t written, std::int64_t count) {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t x = (read + done) % width, here = std::min(count - done, width - x);
      float* const to = all + (written + done) * stride;
      std::int64_t rest = (read + done) / width;
      for (std::size_t axis = last; axis-- > 0;) {
        const auto size = static_cast<std::int64_t>(lines[axis].shape(0));
        const float value = lines[axis].data()[rest % size];
        rest /= size;
        for (std::int64_t i = 0; i < here; ++i) to[i * stride + columns[axis]] = value;
      }
      for (std::int64_t i = 0; i < here; ++i) to[i * stride + columns[last]] = lines[last].data()[x + i];
      done += here;
    }
  });
}

using Flat = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// 0 · x is 0 unless x is NaN or infinite; sums of these products vectorise.
bool finite(const float* values, std::int64_t first, std::int64_t last) {
  float sums[16] = {};
  std::int64_t i = first;
  for (; i + 16 <= last; i += 16)
    for (int lane = 0; lane < 16; ++lane) sums[lane] += values[i + lane] * 0.0f;
  for (; i < last; ++i) sums[0] += values[i] * 0.0f;
  for (const float sum : sums)
    if (!(sum == 0)) return false;
  return true;
}

bool all_finite(const Flat& values, int threads) {
  check_threads(threads);
  const auto count = static_cast<std::int64_t>(values.shape(0));
  const std::int64_t piece = 1 << 18;
  std::atomic<bool> all{true};
  const ReleasedGil released;
  parallel_for(threads, (count + piece - 1) / piece, [&](std::int64_t i, int) {
    if (!finite(values.data(), i * piece, std::min((i + 1) * piece, count)))
      all.store(false, std::memory_order_relaxed);
  });
  return all;
}

using Planes = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // (labels, points)
using PerLabel = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// For each label the largest difference of its score to the best score of the same point: 0 if it is the best one
// somewhere.
void largest_leads(const Planes& scores, const PerLabel& out, int threads) {
  check_threads(threads);
  require(out.size() == scores.shape(0), "out must be (labels,)");
  const auto labels = static_cast<std::int64_t>(scores.shape(0)), points = static_cast<std::int64_t>(scores.shape(1));
  constexpr std::int64_t tile = 1024;
  const int workers = std::min(threads, 64);
  std::vector<float> leads(labels * workers, -std::numeric_limits<float>::infinity());
  const ReleasedGil released;
  parallel_for(workers, (points + tile - 1) / tile, [&](std::int64_t item, int worker) {
    const std::int64_t first = item * tile, count = std::min(tile, points - first);
    float best[tile];
    std::fill(best, best + count, -std::numeric_limits<float>::infinity());
    for (std::int64_t label = 0; label < labels; ++label) {
      const float* const from = scores.data() + label * points + first;
      for (std::int64_t i = 0; i < count; ++i) best[i] = std::max(best[i], from[i]);
    }
    for (std::int64_t label = 0; label < labels; ++label) {
      const float* const from = scores.data() + label * points + first;
      float lead = leads[worker * labels + label];
      for (std::int64_t i = 0; i < count; ++i) lead = std::max(lead, from[i] - best[i]);
      leads[worker * labels + label] = lead;
    }
  });
  for (std::int64_t label = 0; label < labels; ++label) {
    out.data()[label] = -std::numeric_limits<float>::infinity();
    for (int worker = 0; worker < workers; ++worker)
      out.data()[label] = std::max(out.data()[label], leads[worker * labels + label]);
  }
}

using LabelsOut = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The label with the highest score of each point, the first of several.
void best_labels(const Planes& scores, const LabelsOut& out, int threads) {
  check_threads(threads);
  require(out.size() == scores.shape(1), "out must be (points,)");
  const auto labels = static_cast<std::int32_t>(scores.shape(0));
  const auto points = static_cast<std::int64_t>(scores.shape(1));
  const ReleasedGil released;
  parallel_for_ranges(threads, points, [&](std::int64_t first, std::int64_t last, int) {
    std::vector<float> best(static_cast<std::size_t>(last - first), -std::numeric_limits<float>::infinity());
    std::fill(out.data() + first, out.data() + last, 0);
    for (std::int32_t label = 0; label < labels; ++label) {
      const float* const from = scores.data() + label * points;
      for (std::int64_t i = first; i < last; ++i) {
        const bool better = from[i] > best[i - first];
        best[i - first] = better ? from[i] : best[i - first];
        out.data()[i] = better ? label : out.data()[i];
      }
    }
  });
}

// Uninitialised memory for (rows, columns) floats, from the cache of memory blocks.
nb::ndarray<nb::numpy, float, nb::ndim<2>> new_array(std::size_t rows, std::size_t columns) {
  if (columns > 0 && rows > std::numeric_limits<std::size_t>::max() / sizeof(float) / columns) throw std::bad_alloc();
  auto* buffer = new Buffer<float>(rows * columns);
  const nb::capsule owner(buffer, [](void* given) noexcept { delete static_cast<Buffer<float>*>(given); });
  return nb::ndarray<nb::numpy, float, nb::ndim<2>>(buffer->data(), {rows, columns}, owner);
}

}  // namespace

void bind_arrays(nb::module_& module) {
  module.def("release_memory", &release_blocks);
  module.def("new_array", &new_array, nb::arg("rows"), nb::arg("columns"));
  module.def("largest_leads", &largest_leads, array_arg("scores"), array_arg("out"), nb::arg("threads"));
  module.def("best_labels", &best_labels, array_arg("scores"), array_arg("out"), nb::arg("threads"));
  module.def("all_finite", &all_finite, array_arg("values"), nb::arg("threads"));
  module.def("fill_features", &fill_features, array_arg("columns"), nb::arg("widths"), array_arg("out"),
             nb::arg("offset"), nb::arg("order").none(), nb::arg("threads"));
  module.def("fill_grid", &fill_grid, nb::arg("lines"), nb::arg("columns"), array_arg("out"), nb::arg("order").none(),
             nb::arg("threads"));
}

}  // namespace densefield
