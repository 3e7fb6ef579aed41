#include "lattice/filter.hpp"

#include <chrono>
#include <cstring>
#include <deque>

namespace densefield {

void LatticeFilter::fit(Workspace& space, Shape shape, bool gradients) const {
  const int row = padded_row(static_cast<int>(std::min<std::int64_t>(shape.channels, max_row)));
  const auto slots = static_cast<std::size_t>(lattice_.slots() * row);
  const auto rows = static_cast<std::size_t>(lattice_.vertices * row);
  if (space.local.size() < slots) space.local = Buffer<float>(slots);
  if (space.rows.size() < rows) space.rows = Buffer<float>(rows);
  if (gradients && space.more.size() < rows) space.more = Buffer<float>(rows);
}

namespace {

// Time of the first worker between phases.
class Stopwatch {
 public:
  Stopwatch(const Worker& worker, bool runs) : worker_(worker) {
    if (runs) start_ = Clock::now();
  }

  void add_to(double& seconds) {
    worker_.sync();
    const auto now = Clock::now();
    if (worker_.index == 0) seconds += std::chrono::duration<double>(now - start_).count();
    start_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Worker& worker_;
  Clock::time_point start_;
};

}  // namespace

int LatticeFilter::useful_threads(int threads, Shape shape) const {
  const std::int64_t tasks = shape.batch * shape.channels * lattice_.points / (1 << 15);
  return worth_starting(threads, std::min(lattice_.chunks(), tasks));
}

// The last block of a row comes first: its padding spills into the next point's first channels, which are written
// later.
std::vector<LatticeFilter::Block> LatticeFilter::blocks(Shape shape) const {
  std::vector<Block> blocks;
  for (std::int64_t item = 0; item < shape.batch; ++item)
    for (std::int64_t first = (shape.channels - 1) / max_row * max_row; first >= 0; first -= max_row) {
      const int channels = static_cast<int>(std::min<std::int64_t>(max_row, shape.channels - first));
      const int row = padded_row(channels);
      blocks.push_back({item * lattice_.points * shape.channels + first, shape.channels, channels, row, row_kind(row)});
    }
  return blocks;
}

void LatticeFilter::splat(const Worker& worker, Queue& queue, const Block& block, const float* values,
                          float* local) const {
  queue.drain(worker, [&](std::int64_t index) {
    const std::int64_t first = lattice_.chunk_slots[index], slots = lattice_.chunk_slots[index + 1] - first;
    kernels_.splat[block.kind](
        lattice_.chunk(index), values + block.offset + lattice_.chunk_begin(index) * block.stride, block.stride,
        block.channels, Columns<float>::of(local, lattice_.slots()).from(first, block.row), slots);
  });
}

void LatticeFilter::gather(const Worker& worker, int kind, const float* local, float factor, float* rows,
                           float* copy) const {
  const auto [first, last] = worker.share(lattice_.vertices, share_grain);
  const auto sums = Columns<const float>::of(local, lattice_.slots());
  const auto all = Columns<float>::of(rows, lattice_.vertices);
  const std::int64_t batch = copy ? 256 : last - first;  // copied while in the first-level cache
  for (std::int64_t begin = first; begin < last; begin += batch) {
    const std::int64_t end = std::min(begin + batch, last);
    kernels_.gather[kind](sums, lattice_.slots_begin.data(), lattice_.slots_of_vertex.data(), begin, end, factor, all);
    if (!copy) continue;
    const int row = row_of(kind);
    const auto from = all.from(begin, row), to = Columns<float>::of(copy, lattice_.vertices).from(begin, row);
    std::memcpy(to.head, from.head, (end - begin) * head_of(row) * sizeof(float));
    std::memcpy(to.tail, from.tail, (end - begin) * (row - head_of(row)) * sizeof(float));
  }
}

void LatticeFilter::blur(const Worker& worker, int kind, float* rows, bool adjoint) const {
  for (std::size_t step = 0; step < passes_.size(); ++step) {
    // Every pass is symmetric, so the adjoint applies them in reverse order.
    const Pass& pass = passes_[adjoint ? passes_.size() - 1 - step : step];
    const Chains& chains = lattice_.chains[pass.axis];
    if (chains.vertices.empty()) continue;
    worker.sync();
    const auto [first, last] = worker.share(static_cast<std::int64_t>(chains.blocks.size()) - 1);
    if (first < last)
      kernels_.blur[kind](Columns<float>::of(rows, lattice_.vertices), chains.vertices.data(), chains.blocks[first],
                          chains.blocks[last], pass.tap);
  }
}

void LatticeFilter::slice(const Worker& worker, Queue& queue, const Block& block, const float* rows, float* out) const {
  queue.drain(worker, [&](std::int64_t index) {
    kernels_.slice[block.kind](lattice_.chunk(index), Columns<const float>::of(rows, lattice_.vertices),
                               out + block.offset + lattice_.chunk_begin(index) * block.stride, block.stride,
                               block.channels);
  });
}

void LatticeFilter::apply(const float* values, float* out, Shape shape, bool adjoint, float magnitude, int threads,
                          Times* times) const {
  if (lattice_.points == 0 || shape.batch == 0 || shape.channels == 0) return;
  const std::vector<Block> work = blocks(shape);
  WorkspacePool<Workspace>::Lease space(workspaces_);
  fit(*space, shape, false);
  std::deque<Queue> queues;
  threads = useful_threads(threads, shape);
  for (std::size_t i = 0; i < 2 * work.size(); ++i) queues.emplace_back(lattice_.chunks(), threads);
  float* local = space->local.data();
  float* rows = space->rows.data();
  parallel(threads, [&](const Worker& worker) {
    Stopwatch watch(worker, times != nullptr);
    for (std::size_t i = 0; i < work.size(); ++i) {
      splat(worker, queues[2 * i], work[i], values, local);
      worker.sync();
      gather(worker, work[i].kind, local, magnitude, rows);
      if (times) watch.add_to(times->splat);
      blur(worker, work[i].kind, rows, adjoint);
      worker.sync();
      if (times) watch.add_to(times->blur);
      slice(worker, queues[2 * i + 1], work[i], rows, out);
      if (times) watch.add_to(times->slice);
    }
  });
}

void LatticeFilter::gradients(const float* cotangent, const float* values, Shape shape, float* to_values,
                              float* to_features, float magnitude, int threads) const {
  const std::int64_t points = lattice_.points;
  const int d = lattice_.embedding.dimension, corners = d + 1;
  if (shape.batch == 0 || shape.channels == 0) std::memset(to_features, 0, points * d * sizeof(float));
  if (points == 0 || shape.batch == 0 || shape.channels == 0) return;
  const std::vector<Block> work = blocks(shape);
  WorkspacePool<Workspace>::Lease space(workspaces_);
  fit(*space, shape, true);
  Buffer<float> slopes(static_cast<std::size_t>(points * corners));
  std::deque<Queue> queues;
  threads = useful_threads(threads, shape);
  for (std::size_t i = 0; i < 4 * work.size(); ++i) queues.emplace_back(lattice_.chunks(), threads);
  float* local = space->local.data();
  float* rows_values = space->rows.data();
  float* rows_cotangent = space->more.data();
  parallel(threads, [&](const Worker& worker) {
    const auto [low, high] = worker.share(points);
    std::memset(slopes.data() + low * corners, 0, (high - low) * corners * sizeof(float));
    for (std::size_t i = 0; i < work.size(); ++i) {
      const Block& block = work[i];
      splat(worker, queues[4 * i], block, values, local);
      worker.sync();
      gather(worker, block.kind, local, magnitude, rows_values);
      blur(worker, block.kind, rows_values, false);
      worker.sync();
      splat(worker, queues[4 * i + 1], block, cotangent, local);
      worker.sync();
      gather(worker, block.kind, local, magnitude, rows_cotangent);
      blur(worker, block.kind, rows_cotangent, true);
      worker.sync();
      slice(worker, queues[4 * i + 2], block, rows_cotangent, to_values);
      queues[4 * i + 3].drain(worker, [&](std::int64_t index) {
        const std::int64_t first = lattice_.chunk_begin(index), at = block.offset + first * block.stride;
        kernels_.slopes[block.kind](lattice_.chunk(index), cotangent + at, values + at, block.stride, block.channels,
                                    Columns<const float>::of(rows_cotangent, lattice_.vertices),
                                    Columns<const float>::of(rows_values, lattice_.vertices),
                                    slopes.data() + first * corners);
      });
      worker.sync();
    }
    kernels_.pull_back(lattice_.embedding, high - low, lattice_.order.data() + low * corners,
                       slopes.data() + low * corners, to_features + low * d);
  });
}

}  // namespace densefield
