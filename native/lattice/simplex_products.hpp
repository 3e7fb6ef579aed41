// Entries of the blur B between vertices of one simplex, for the diagonal of K = S·B·Sᵀ.
//
// The corners of a simplex are a cycle: each step is along another axis, and d+1 steps lead back to the start. If the
// cycle starts after the step along axis d, a later corner w is u + 1_A, where A is a set of the axes 0 … d-1. A table
// holds B(u, w) + B(w, u) for every vertex u and every set A, as a bit mask; for A = ∅ it holds B(u, u).
//
// If the passes are palindromic, B = Hᵀ·M·H with H the passes along axes 0 … d-1 and M both passes along axis d. H·e_u
// consists of the vertices u + δ, δ ∈ {-1, 0, 1}^d, that are reached through existing vertices; none is reached twice.
// If there is one pass per axis, B(u, w) is the sum over at most two ways: along A, or back along the other axes.
#pragma once

#include <atomic>
#include <bit>
#include <cstring>

#include "lattice/filter.hpp"

namespace densefield {

class SimplexProducts {
 public:
  // Whether a table can be made. With more corners it would be larger than the lattice.
  static bool supports(const std::vector<Pass>& passes, int corners) {
    return corners <= most_corners && (is_palindromic(passes, corners) || is_ascending(passes, corners));
  }

  SimplexProducts(const Lattice& lattice, const std::vector<Pass>& passes, int threads)
      : lattice_(lattice),
        passes_(passes),
        corners_(lattice.corners()),
        vertices_(lattice.vertices),
        masks_(1 << (corners_ - 1)),
        links_(static_cast<std::size_t>(corners_ * (vertices_ + 1))),
        table_(static_cast<std::size_t>(vertices_ * masks_)) {
    parallel_for(threads, corners_, [&](std::int64_t axis, int) { link(static_cast<int>(axis)); });
    if (is_palindromic(passes, corners_))
      fill_palindromic(threads);
    else
      fill_ascending(threads);
  }

  // bᵀ·B·b for the barycentric weights b of every point of a chunk.
  void squares(std::int64_t chunk, float magnitude, float* out) const {
    with_corners([&](auto c) { squares_of<c()>(chunk, magnitude, out); });
  }

 private:
  static constexpr int most_corners = 7;
  static constexpr int most_masks = 1 << (most_corners - 1);
  static constexpr int most_entries = 729;  // 3^d
  static constexpr std::int64_t block = 256;

  // Both neighbours of a vertex along an axis, -1 if missing.
  struct Link {
    std::int32_t next, previous;
  };
  // A vertex and the weight of the way to it.
  struct Entry {
    std::int32_t vertex;
    float weight;
  };

  // The corners of a simplex along the cycle, and the masks of the axes from the first up to each of them.
  template <int C>
  struct Cycle {
    int corner[C ? C : most_corners];
    int mask[C ? C : most_corners];

    // `axes`: the coordinate of each rank. The step to corner k is along the one of rank corners - k.
    void set(const std::uint8_t* axes, int all) {
      const int corners = C ? C : all;
      int rank = 0, so_far = 0;
      for (int r = 1; r < corners; ++r) rank = axes[r] == corners - 1 ? r : rank;
      for (int i = 0; i < corners; ++i) {
        corner[i] = rank == 0 ? 0 : corners - rank;
        if (i > 0) so_far |= 1 << axes[rank];
        mask[i] = so_far;
        rank = rank == 0 ? corners - 1 : rank - 1;
      }
    }
  };

  static bool is_ascending(const std::vector<Pass>& passes, int corners) {
    if (passes.size() != static_cast<std::size_t>(corners)) return false;
    for (int axis = 0; axis < corners; ++axis)
      if (passes[axis].axis != axis) return false;
    return true;
  }
  static bool is_palindromic(const std::vector<Pass>& passes, int corners) {
    if (passes.size() != static_cast<std::size_t>(2 * corners)) return false;
    for (int axis = 0; axis < corners; ++axis) {
      const Pass &pass = passes[axis], &mirror = passes[passes.size() - 1 - axis];
      if (pass.axis != axis || mirror.axis != axis || pass.tap != mirror.tap) return false;
    }
    return true;
  }

  // Calls task(C) with the number of corners as a constant for common dimensions, else with 0.
  template <class Task>
  void with_corners(const Task& task) const {
    if (corners_ == 3) return task(std::integral_constant<int, 3>{});
    if (corners_ == 6) return task(std::integral_constant<int, 6>{});
    task(std::integral_constant<int, 0>{});
  }

  // Calls found(point, cycle, vertices of the cycle) for every point whose simplex is not that of the point before, and
  // then each(point, cycle) for every point.
  template <int C, class Found, class Each>
  void for_points(std::int64_t index, const Found& found, const Each& each) const {
    const int corners = C ? C : corners_;
    const Chunk chunk = lattice_.chunk(index);
    const std::uint8_t* axes = lattice_.order.data() + lattice_.chunk_begin(index) * corners;
    Cycle<C> cycle;
    for (std::int64_t point = 0; point < chunk.points; ++point) {
      const std::uint16_t* ids = chunk.ids + point * corners;
      if (point == 0 || std::memcmp(ids, ids - corners, corners * sizeof *ids) != 0) {
        cycle.set(axes + point * corners, corners);
        std::int32_t vertex[most_corners];
        for (int i = 0; i < corners; ++i) vertex[i] = chunk.vertices[ids[cycle.corner[i]]];
        found(cycle, vertex);
      }
      each(point, cycle);
    }
  }

  template <int C>
  void squares_of(std::int64_t index, float magnitude, float* out) const {
    const int corners = C ? C : corners_;
    const float* weights = lattice_.chunk(index).weights;
    float* const to = out + lattice_.chunk_begin(index);
    float product[most_corners][most_corners];
    const auto look_up = [&](const Cycle<C>& cycle, const std::int32_t* vertex) {
      for (int i = 0; i < corners; ++i) {
        const float* from = table_.data() + vertex[i] * std::int64_t{masks_};
        for (int j = i; j < corners; ++j) product[i][j] = from[cycle.mask[i] ^ cycle.mask[j]];
      }
    };
    for_points<C>(index, look_up, [&](std::int64_t point, const Cycle<C>& cycle) {
      float weight[most_corners];
      for (int i = 0; i < corners; ++i) weight[i] = weights[point * corners + cycle.corner[i]];
      float sum = 0;
      for (int i = 0; i < corners; ++i) {
        float with = 0;
        for (int j = i; j < corners; ++j) with += weight[j] * product[i][j];
        sum += weight[i] * with;
      }
      to[point] = magnitude * sum;
    });
  }

  std::int64_t blocks() const { return (vertices_ + block - 1) / block; }
  template <class Task>
  void for_vertices(std::int64_t index, const Task& task) const {
    const std::int64_t end = std::min((index + 1) * block, vertices_);
    for (std::int64_t vertex = index * block; vertex < end; ++vertex) task(static_cast<std::int32_t>(vertex));
  }
  float* table_of(std::int32_t vertex) { return table_.data() + vertex * std::int64_t{masks_}; }

  // Neighbours along an axis; those of a missing vertex, -1, are missing too.
  const Link* links(int axis) const { return links_.data() + axis * (vertices_ + 1) + 1; }

  void link(int axis) {
    Link* to = links_.data() + axis * (vertices_ + 1) + 1;
    std::fill(to - 1, to + vertices_, Link{-1, -1});
    const std::vector<std::int32_t>& chain = lattice_.chains[axis].vertices;
    for (std::size_t at = 0; at + 1 < chain.size(); ++at) {
      if (chain[at] < 0) continue;
      const std::int32_t after = chain[at + 1] ^ (chain[at + 1] >> 31);
      to[chain[at]].next = after;
      to[after].previous = chain[at];
    }
  }

  // Notes which masks the simplices of a chunk need, as the bits of a number for each vertex.
  template <int C>
  void mark(std::int64_t index, std::atomic<std::uint64_t>* needed) const {
    const auto note = [&](const Cycle<C>& cycle, const std::int32_t* vertex) {
      const int corners = C ? C : corners_;
      for (int i = 0; i < corners; ++i) {
        std::uint64_t bits = 0;
        for (int j = i; j < corners; ++j) bits |= std::uint64_t{1} << (cycle.mask[i] ^ cycle.mask[j]);
        std::atomic<std::uint64_t>& all = needed[vertex[i]];
        if (bits & ~all.load(std::memory_order_relaxed)) all.fetch_or(bits, std::memory_order_relaxed);
      }
    };
    for_points<C>(index, note, [](std::int64_t, const Cycle<C>&) {});
  }
  std::unique_ptr<std::atomic<std::uint64_t>[]> needed_masks(int threads) const {
    std::unique_ptr<std::atomic<std::uint64_t>[]> needed(
        new std::atomic<std::uint64_t>[static_cast<std::size_t>(vertices_)]());
    parallel_for(threads, lattice_.chunks(),
                 [&](std::int64_t index, int) { with_corners([&](auto c) { mark<c()>(index, needed.get()); }); });
    return needed;
  }

  // Calls task(mask, u + 1_A) for the needed masks, smaller ones first. A simplex with a mask also needs one with an axis
  // less, so every vertex is the neighbour of one found before.
  template <class Task>
  void for_corners(std::int32_t u, std::uint64_t needed, const Task& task) const {
    std::int32_t corner[most_masks];
    std::fill_n(corner, masks_, -1);
    corner[0] = u;
    for (; needed; needed &= needed - 1) {
      const int mask = std::countr_zero(needed);
      for (int axis = 0; mask >> axis; ++axis)
        if (mask >> axis & 1) corner[mask] = std::max(corner[mask], links(axis)[corner[mask ^ 1 << axis]].next);
      task(mask, corner[mask]);
    }
  }

  // One pass per axis: a way along a set takes its axes in ascending order, and needs all vertices on it.
  void fill_ascending(int threads) {
    float weight[2 * most_masks] = {1};
    for (int axis = 0; axis < corners_; ++axis)
      for (int mask = 1 << axis; mask < 2 << axis; ++mask)
        weight[mask] = weight[mask - (1 << axis)] * passes_[axis].tap;
    const int all = 2 * masks_ - 1;
    const auto needed = needed_masks(threads);
    parallel_for(threads, blocks(), [&](std::int64_t index, int) {
      for_vertices(index, [&](std::int32_t u) {
        for_corners(u, needed[u].load(std::memory_order_relaxed), [&](int mask, std::int32_t w) {
          const int rest = all ^ mask;
          const int along = exists(u, mask, true) + exists(w, mask, false);
          const int around = exists(u, rest, false) + exists(w, rest, true);
          table_of(u)[mask] =
              mask == 0 ? 1 + weight[all] * static_cast<float>(around)
                        : weight[mask] * static_cast<float>(along) + weight[rest] * static_cast<float>(around);
        });
      });
    });
  }

  // Whether all vertices on the way from u along a set of axes exist.
  bool exists(std::int32_t u, int mask, bool forwards) const {
    for (int axis = 0; axis < corners_; ++axis)
      if (mask >> axis & 1) u = forwards ? links(axis)[u].next : links(axis)[u].previous;
    return u >= 0;
  }

  // H·e_u, into memory for most_entries + 2; returns the number of entries.
  int reach(std::int32_t u, Entry* entries) const {
    entries[0] = {u, 1.0f};
    int count = 1;
    for (int axis = 0; axis + 1 < corners_; ++axis) {
      const Link* const near = links(axis);
      for (int i = 0, before = count; i < before; ++i) {  // whether a neighbour exists is hard to predict: no branches
        const auto [next, previous] = near[entries[i].vertex];
        const float weight = entries[i].weight * passes_[axis].tap;
        entries[count] = {next, weight};
        count += next >= 0;
        entries[count] = {previous, weight};
        count += previous >= 0;
      }
    }
    return count;
  }

  // The terms of M·H·e_u, of which several may be at the same vertex; returns their number.
  int spread(const Entry* entries, int count, Entry* terms) const {
    const Link* const near = links(corners_ - 1);
    const float tap = passes_[corners_ - 1].tap;
    int size = 0;
    const auto add = [&](std::int32_t vertex, float weight) {
      terms[size] = {vertex, weight};
      size += vertex >= 0;
    };
    for (int i = 0; i < count; ++i) {
      const auto [vertex, weight] = entries[i];
      const auto [next, previous] = near[vertex];
      add(vertex, weight * (1 + tap * tap * static_cast<float>((next >= 0) + (previous >= 0))));
      add(next, 2 * tap * weight);
      add(previous, 2 * tap * weight);
      add(near[next].next, tap * tap * weight);
      add(near[previous].previous, tap * tap * weight);
    }
    return size;
  }

  // All H·e_u.
  struct Reached {
    std::vector<Buffer<Entry>> lists;  // of each block
    Buffer<const Entry*> begin;        // (vertices)
    Buffer<std::int32_t> count;        // (vertices)
  };
  Reached reach_all(int threads) const {
    const auto vertices = static_cast<std::size_t>(vertices_);
    Reached all{std::vector<Buffer<Entry>>(static_cast<std::size_t>(blocks())), Buffer<const Entry*>(vertices),
                Buffer<std::int32_t>(vertices)};
    std::vector<Buffer<Entry>> spaces;
    for (int worker = 0; worker < threads; ++worker) spaces.emplace_back(block * most_entries + 2);
    parallel_for(threads, blocks(), [&](std::int64_t index, int worker) {
      Entry* const space = spaces[worker].data();
      std::int64_t end = 0;
      for_vertices(index, [&](std::int32_t u) { end += all.count[u] = reach(u, space + end); });
      Buffer<Entry> list(static_cast<std::size_t>(end));
      std::copy_n(space, end, list.data());
      const Entry* at = list.data();
      for_vertices(index, [&](std::int32_t u) {
        all.begin[u] = at;
        at += all.count[u];
      });
      all.lists[index] = std::move(list);
    });
    return all;
  }

  void fill_palindromic(int threads) {
    const auto needed = needed_masks(threads);
    const Reached reached = reach_all(threads);
    std::vector<Buffer<float>> sums;  // M·H·e_u on all vertices, for each worker
    for (int worker = 0; worker < threads; ++worker) {
      sums.emplace_back(static_cast<std::size_t>(vertices_));
      std::fill_n(sums.back().data(), vertices_, 0.0f);
    }
    parallel_for(threads, blocks(), [&](std::int64_t index, int worker) {
      float* const sum = sums[worker].data();
      Entry terms[5 * most_entries + 1];
      for_vertices(index, [&](std::int32_t u) {
        const std::uint64_t masks = needed[u].load(std::memory_order_relaxed);
        if (masks == 0) return;  // added by a halo
        const int size = spread(reached.begin[u], reached.count[u], terms);
        for (int i = 0; i < size; ++i) sum[terms[i].vertex] += terms[i].weight;
        for_corners(u, masks, [&](int mask, std::int32_t w) {
          const float product = dot(reached.begin[w], reached.count[w], sum);
          table_of(u)[mask] = mask == 0 ? product : 2 * product;
        });
        for (int i = 0; i < size; ++i) sum[terms[i].vertex] = 0;
      });
    });
  }

  static float dot(const Entry* entries, int count, const float* sum) {
    float parts[4] = {};
    int i = 0;
    for (; i + 4 <= count; i += 4)
      for (int j = 0; j < 4; ++j) parts[j] += entries[i + j].weight * sum[entries[i + j].vertex];
    for (; i < count; ++i) parts[0] += entries[i].weight * sum[entries[i].vertex];
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
  }

  const Lattice& lattice_;
  const std::vector<Pass>& passes_;
  int corners_;
  std::int64_t vertices_;
  int masks_;
  Buffer<Link> links_;   // (axes, 1 + vertices)
  Buffer<float> table_;  // (vertices, masks); only what simplices need is filled
};

}  // namespace densefield
