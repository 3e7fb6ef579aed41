#include "image/mask_edges.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/parallel.hpp"

namespace densefield {

namespace {

// From a pixel to the nearest one of another label, over the distance; and whether the pixel's label is the inner one.
struct Normal {
  float distance;
  float direction[3];  // z, y, x
  bool inner;
};

struct Place {
  std::int32_t z, y, x;
};

Place place_of(const Grid& grid, std::int32_t pixel) {
  const auto columns = static_cast<std::uint32_t>(grid.size[2]), row = static_cast<std::uint32_t>(pixel) / columns;
  const auto x = static_cast<std::int32_t>(static_cast<std::uint32_t>(pixel) - row * columns);
  if (grid.size[0] == 1) return {0, static_cast<std::int32_t>(row), x};
  const auto rows = static_cast<std::uint32_t>(grid.size[1]);
  return {static_cast<std::int32_t>(row / rows), static_cast<std::int32_t>(row % rows), x};
}

Normal normal_of(const MaskView& mask, std::int64_t pixel, const Place& here) {
  const std::int32_t other = mask.nearest[pixel];
  const Place there = place_of(mask.grid, other);
  const float distance = std::sqrt(mask.squared_distance[pixel]), inverse = 1 / distance;
  return {distance,
          {static_cast<float>(there.z - here.z) * mask.grid.spacing[0] * inverse,
           static_cast<float>(there.y - here.y) * mask.grid.spacing[1] * inverse,
           static_cast<float>(there.x - here.x) * mask.grid.spacing[2] * inverse},
          mask.rank[mask.labels[pixel]] > mask.rank[mask.labels[other]]};
}

// Calls task(pixel, its place, worker) for all pixels; rows are distributed over the threads.
template <class Task>
void for_pixels(const Grid& grid, int threads, const Task& task) {
  constexpr std::int64_t rows_of_task = 8;
  const std::int64_t columns = grid.size[2], rows = grid.num_pixels() / columns;
  parallel_for(threads, (rows + rows_of_task - 1) / rows_of_task, [&](std::int64_t piece_of_rows, int worker) {
    for (std::int64_t row = piece_of_rows * rows_of_task; row < std::min(rows, (piece_of_rows + 1) * rows_of_task);
         ++row) {
      Place place = place_of(grid, static_cast<std::int32_t>(row * columns));
      for (; place.x < columns; ++place.x) task(row * columns + place.x, place, worker);
    }
  });
}

// Half the smallest spacing of the axes in use: the mask's edge lies half a pixel before the nearest other label.
float half_pixel(const Grid& grid) {
  float least = std::numeric_limits<float>::infinity();
  for (int axis = 0; axis < 3; ++axis)
    if (grid.size[axis] > 1) least = std::min(least, grid.spacing[axis]);
  return least / 2;
}

// The image's derivative along a direction, as a norm over the channels; negative if a neighbour has no value. Central
// differences, smoothed across in the plane of the last two axes.
template <class Number>
float edge_strength(const Grid& grid, const ImageView<Number>& image, const std::uint8_t* use, std::int64_t pixel,
                    const Place& place, const float* direction) {
  const std::int64_t rows = grid.size[1], columns = grid.size[2], plane = rows * columns;
  if (place.y == 0 || place.x == 0 || place.y + 1 == rows || place.x + 1 == columns) return -1;
  for (std::int64_t dy = -1; dy <= 1; ++dy)
    for (std::int64_t dx = -1; dx <= 1; ++dx)
      if (use[pixel + dy * columns + dx] == 0) return -1;
  const bool deep = place.z > 0 && place.z + 1 < grid.size[0] && use[pixel - plane] && use[pixel + plane];
  const float across = 1 / (8 * grid.spacing[2]), down = 1 / (8 * grid.spacing[1]), back = 1 / (2 * grid.spacing[0]);
  float sum = 0;
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const auto at = [&](std::int64_t offset) {
      return static_cast<float>(image.values[(pixel + offset) * image.channels + c]);
    };
    const float nw = at(-columns - 1), ne = at(-columns + 1), sw = at(columns - 1), se = at(columns + 1);
    const float gx = (ne + 2 * at(1) + se - nw - 2 * at(-1) - sw) * across;
    const float gy = (sw + 2 * at(columns) + se - nw - 2 * at(-columns) - ne) * down;
    const float gz = deep ? (at(plane) - at(-plane)) * back : 0;
    const float slope = gx * direction[2] + gy * direction[1] + gz * direction[0];
    sum += slope * slope;
  }
  return std::sqrt(sum);
}

}  // namespace

template <class Number>
void edge_profile(const MaskView& mask, const ImageView<Number>& image, const std::uint8_t* use, float bin_width,
                  const ProfileShape& shape, std::int64_t* strengths, std::int64_t* counts, int threads) {
  const std::int64_t cells = shape.cells(), bins = shape.bins, directions = shape.directions;
  const int workers = std::min(threads, 8);
  std::vector<std::int64_t> sums(2 * cells * workers);  // integers, so that the order of additions does not matter
  const float reach = static_cast<float>(bins) * bin_width;
  const float half = half_pixel(mask.grid), farthest = reach + half;
  for_pixels(mask.grid, workers, [&](std::int64_t pixel, const Place& place, int worker) {
    if (use[pixel] != 2 || !(mask.squared_distance[pixel] < farthest * farthest)) return;
    const std::int64_t pair = mask.pair(pixel);
    if (pair < 0) return;
    const Normal normal = normal_of(mask, pixel, place);
    const float away = normal.distance - half;
    if (!(away < reach)) return;
    const float strength = edge_strength(mask.grid, image, use, pixel, place, normal.direction);
    if (!(strength >= 0) || strength > 1e9f) return;
    // The quotient may round up to the number of bins.
    const auto step = std::min(static_cast<std::int64_t>(away / bin_width), bins - 1);
    const std::int64_t bin = normal.inner ? bins + step : bins - 1 - step;
    std::int64_t direction = 0;
    if (directions > 1) {
      const float sign = normal.inner ? 1.0f : -1.0f;
      const float turns =
          std::atan2(sign * normal.direction[1], sign * normal.direction[2]) / (2 * std::numbers::pi_v<float>);
      direction = (std::lround(turns * static_cast<float>(directions)) + directions) % directions;
    }
    std::int64_t* const cell = sums.data() + 2 * cells * worker + (pair * directions + direction) * 2 * bins + bin;
    cell[0] += std::llround(strength * 256);
    cell[cells] += 1;
  });
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    strengths[cell] = counts[cell] = 0;
    for (int worker = 0; worker < workers; ++worker) {
      strengths[cell] += sums[2 * cells * worker + cell];
      counts[cell] += sums[2 * cells * worker + cells + cell];
    }
  }
}

void edge_margins(const MaskView& mask, const Displacement* displacements, float* margins, int threads) {
  const float half = half_pixel(mask.grid);
  for_pixels(mask.grid, threads, [&](std::int64_t pixel, const Place& place, int) {
    if (mask.nearest[pixel] < 0) {
      margins[pixel] = std::numeric_limits<float>::infinity();
      return;
    }
    margins[pixel] = std::sqrt(mask.squared_distance[pixel]) - half;
    const std::int32_t pair = mask.pair(pixel);
    if (pair < 0) return;
    const Displacement& moved = displacements[pair];
    if (moved.offset == 0 && moved.shift_x == 0 && moved.shift_y == 0) return;
    const Normal normal = normal_of(mask, pixel, place);
    const float sign = normal.inner ? 1.0f : -1.0f;  // the outward normal points from the inner to the outer label
    const float outward = sign * (moved.shift_x * normal.direction[2] + moved.shift_y * normal.direction[1]);
    margins[pixel] -= sign * (moved.offset - outward);
  });
}

void band_scores(const MaskView& mask, const std::uint8_t* use, const float* margins, const Confidence& confidence,
                 const std::int32_t* points, std::int64_t num_points, float* scores, int threads) {
  const std::int64_t labels = mask.num_labels;
  const float others = labels > 2 ? -confidence.strength : 0.0f;
  parallel_for_ranges(threads, num_points, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t label = 0; label < labels; ++label)
      for (std::int64_t i = first; i < last; ++i) scores[label * num_points + i] = use[points[i]] == 2 ? others : 0.0f;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t pixel = points[i];
      if (use[pixel] != 2) continue;
      const float part = margins[pixel] / confidence.width;
      const float half = std::copysign(confidence.strength / 2 * (1 - std::exp(-part * part)), margins[pixel]);
      scores[mask.labels[pixel] * num_points + i] = half;
      if (mask.nearest[pixel] >= 0) scores[mask.labels[mask.nearest[pixel]] * num_points + i] = -half;
    }
  });
}

template void edge_profile(const MaskView&, const ImageView<std::uint8_t>&, const std::uint8_t*, float,
                           const ProfileShape&, std::int64_t*, std::int64_t*, int);
template void edge_profile(const MaskView&, const ImageView<float>&, const std::uint8_t*, float, const ProfileShape&,
                           std::int64_t*, std::int64_t*, int);

}  // namespace densefield
