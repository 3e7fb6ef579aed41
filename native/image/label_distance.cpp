#include "image/label_distance.hpp"

#include <limits>
#include <vector>

#include "base/parallel.hpp"

namespace densefield {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t line_group = 16;  // neighbouring lines processed together: one cache line of floats

// Along the fastest axis: the nearer end of each run of equal labels.
void scan_row(const std::int32_t* labels, std::int64_t first, std::int64_t count, float spacing, float* squared,
              std::int32_t* nearest) {
  for (std::int64_t begin = 0, end; begin < count; begin = end) {
    for (end = begin + 1; end < count && labels[end] == labels[begin];) ++end;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t left = begin > 0 ? i - begin + 1 : count, right = end < count ? end - i : count;
      const std::int64_t steps = std::min(left, right);
      const float distance = static_cast<float>(steps) * spacing;
      squared[i] = steps == count ? infinity : distance * distance;
      nearest[i] = steps == count ? -1 : static_cast<std::int32_t>(first + (left <= right ? begin - 1 : end));
    }
  }
}

// One line along another axis, and the lower envelope of parabolas over one of its runs.
struct Line {
  explicit Line(std::int64_t count)
      : label(count),
        cost(count),
        source(count),
        place(count + 2),
        height(count + 2),
        origin(count + 2),
        start(count + 3) {}

  std::vector<std::int32_t> label;
  std::vector<float> cost;  // squared distance within the axes processed before
  std::vector<std::int32_t> source;
  // The parabolas of the envelope, and where each becomes the lowest.
  std::vector<double> place, height;
  std::vector<std::int32_t> origin;
  std::vector<double> start;
  std::int64_t parabolas = 0;

  void add(double position, double squared, std::int32_t from) {
    double begin = -std::numeric_limits<double>::infinity();
    while (parabolas > 0) {
      const double gap = position - place[parabolas - 1];
      begin = ((squared - height[parabolas - 1]) / gap + position + place[parabolas - 1]) / 2;
      if (begin > start[parabolas - 1]) break;
      --parabolas;
    }
    if (parabolas == 0) begin = -std::numeric_limits<double>::infinity();
    place[parabolas] = position;
    height[parabolas] = squared;
    origin[parabolas] = from;
    start[parabolas++] = begin;
  }
};

// Within a run of equal labels, other labels are as far as earlier axes found them; just beyond its ends they are 0 away.
void scan_line(Line& line, std::int64_t count, std::int64_t first, std::int64_t stride, double spacing, float* squared,
               std::int32_t* nearest) {
  for (std::int64_t begin = 0, end; begin < count; begin = end) {
    for (end = begin + 1; end < count && line.label[end] == line.label[begin];) ++end;
    line.parabolas = 0;
    const auto index = [&](std::int64_t i) { return static_cast<std::int32_t>(first + i * stride); };
    if (begin > 0) line.add(static_cast<double>(begin - 1) * spacing, 0, index(begin - 1));
    for (std::int64_t i = begin; i < end; ++i)
      if (line.cost[i] < infinity) line.add(static_cast<double>(i) * spacing, line.cost[i], line.source[i]);
    if (end < count) line.add(static_cast<double>(end) * spacing, 0, index(end));
    if (line.parabolas == 0) continue;  // no other label so far
    std::int64_t lowest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double position = static_cast<double>(i) * spacing;
      while (lowest + 1 < line.parabolas && line.start[lowest + 1] <= position) ++lowest;
      const double away = position - line.place[lowest];
      squared[i * stride] = static_cast<float>(away * away + line.height[lowest]);
      nearest[i * stride] = line.origin[lowest];
    }
  }
}

}  // namespace

void nearest_other_label(const Grid& grid, const std::int32_t* labels, float* squared, std::int32_t* nearest,
                         int threads) {
  const std::int64_t columns = grid.size[2], pixels = grid.num_pixels();
  if (pixels == 0) return;
  constexpr std::int64_t rows_of_task = 16;
  const std::int64_t rows = pixels / columns;
  parallel_for(threads, (rows + rows_of_task - 1) / rows_of_task, [&](std::int64_t task, int) {
    for (std::int64_t row = task * rows_of_task; row < std::min(rows, (task + 1) * rows_of_task); ++row)
      scan_row(labels + row * columns, row * columns, columns, grid.spacing[2], squared + row * columns,
               nearest + row * columns);
  });
  std::int64_t stride = columns;
  for (int axis = 1; axis >= 0; --axis) {
    const std::int64_t count = grid.size[axis];
    if (count > 1) {
      const std::int64_t groups = (stride + line_group - 1) / line_group, slabs = pixels / (stride * count);
      parallel_for(threads, groups * slabs, [&](std::int64_t task, int) {
        Line line(count);
        const std::int64_t slab = task / groups * stride * count, group = task % groups * line_group;
        for (std::int64_t first = slab + group; first < slab + std::min(group + line_group, stride); ++first) {
          for (std::int64_t i = 0; i < count; ++i) {
            line.label[i] = labels[first + i * stride];
            line.cost[i] = squared[first + i * stride];
            line.source[i] = nearest[first + i * stride];
          }
          scan_line(line, count, first, stride, grid.spacing[axis], squared + first, nearest + first);
        }
      });
    }
    stride *= count;
  }
}

}  // namespace densefield
