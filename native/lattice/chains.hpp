// The connections of a lattice: the slots of each vertex, and chains of neighbouring vertices along each axis.
#pragma once

#include <algorithm>

#include "base/parallel.hpp"
#include "lattice/lattice.hpp"

namespace densefield {

inline constexpr std::int64_t block_vertices = 512;  // threads take blocks of chains of about this size

// Fills slots_of_vertex by a counting sort; workers take consecutive ranges of slots.
class SlotLists {
 public:
  SlotLists(Lattice& lattice, int threads)
      : lattice_(lattice), counts_(static_cast<std::size_t>(threads * lattice.vertices)), totals_(threads + 1, 0) {
    lattice.slots_begin = Buffer<std::int32_t>(lattice.vertices + 1);
    lattice.slots_of_vertex = Buffer<std::int32_t>(lattice.slots());
    lattice.slots_begin[lattice.vertices] = static_cast<std::int32_t>(lattice.slots());
  }

  // All workers must call it.
  void fill(const Worker& worker) {
    const std::int64_t vertices = lattice_.vertices;
    std::int32_t* mine = counts_.data() + worker.index * vertices;
    std::fill_n(mine, vertices, 0);
    const auto [first, last] = worker.share(lattice_.slots());
    worker.for_pieces(first, last, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) ++mine[lattice_.vertex_of_slot[slot]];
    });
    worker.sync();
    const auto [low, high] = worker.share(vertices);
    std::int64_t total = 0;
    for (std::int64_t vertex = low; vertex < high; ++vertex)
      for (int other = 0; other < worker.count; ++other) total += counts_[other * vertices + vertex];
    totals_[worker.index + 1] = total;
    worker.sync();
    std::int64_t at = 0;
    for (int other = 0; other <= worker.index; ++other) at += totals_[other];
    for (std::int64_t vertex = low; vertex < high; ++vertex) {
      lattice_.slots_begin[vertex] = static_cast<std::int32_t>(at);
      for (int other = 0; other < worker.count; ++other) {
        std::int32_t& count = counts_[other * vertices + vertex];
        const std::int32_t number = count;
        count = static_cast<std::int32_t>(at);
        at += number;
      }
    }
    worker.sync();
    worker.for_pieces(first, last, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot)
        lattice_.slots_of_vertex[mine[lattice_.vertex_of_slot[slot]]++] = static_cast<std::int32_t>(slot);
    });
  }

 private:
  Lattice& lattice_;
  Buffer<std::int32_t> counts_;  // (workers, vertices)
  std::vector<std::int64_t> totals_;
};

// Writes the chains along one axis. Within a block short chains come first, since branch prediction works best if a
// chain is as long as the one before. So all chains of a block are followed at once, one step at a time, and each is
// written when its length is known. Memory has been reserved before.
class Linker {
 public:
  Linker(const std::int32_t* next, Chains& chains) : next_(next), chains_(chains) {}

  // Writes one block of chains, given the first vertex of each.
  void add_block(const std::int32_t* heads, int count) {
    for (int i = 0; i < count; ++i) open_[i] = {heads[i], next_[heads[i]]};
    for (int length = 2; count > 0 && length <= max_sorted; ++length) {
      int ended = 0, going_on = 0;
      for (int i = 0; i < count; ++i) {
        const Open chain = open_[i];
        const std::int32_t following = next_[chain.last];
        ended_[ended] = chain.head;
        open_[going_on] = {chain.head, following};
        ended += following < 0;
        going_on += following >= 0;
      }
      for (int i = 0; i < ended; ++i) write(ended_[i], length);
      count = going_on;
    }
    for (int i = 0; i < count; ++i) write_long(open_[i].head);
    chains_.blocks.push_back(static_cast<std::int64_t>(chains_.vertices.size()));
  }

  static constexpr int max_heads = 256;

 private:
  static constexpr int max_sorted = 8;  // longer chains are not sorted

  struct Open {
    std::int32_t head, last;  // last: vertex reached so far
  };

  void write(std::int32_t at, int length) {
    for (int i = 1; i < length; ++i) {
      chains_.vertices.push_back(at);
      at = next_[at];
    }
    chains_.vertices.push_back(~at);
  }
  void write_long(std::int32_t at) {
    for (std::int32_t following; (following = next_[at]) >= 0; at = following) chains_.vertices.push_back(at);
    chains_.vertices.push_back(~at);
  }

  const std::int32_t* next_;
  Chains& chains_;
  Open open_[max_heads];
  std::int32_t ended_[max_heads];
};

inline void link(const Worker& worker, const std::int32_t* next, const std::uint8_t* has_previous,
                 std::int64_t vertices, Chains& chains) {
  const auto leads = [&](std::int64_t vertex) { return !has_previous[vertex] & (next[vertex] >= 0); };
  std::int64_t count = 0, linked = 0;
  for (std::int64_t vertex = 0; vertex < vertices; ++vertex) {
    count += leads(vertex);
    linked += leads(vertex) | has_previous[vertex];
  }
  chains.blocks.push_back(0);
  if (count == 0) return;
  const std::int64_t in_block = std::clamp<std::int64_t>(block_vertices * count / linked, 1, Linker::max_heads);
  Linker linker(next, chains);
  std::int32_t heads[Linker::max_heads + 1];
  int found = 0;
  for (std::int64_t vertex = 0; vertex < vertices; ++vertex) {
    heads[found] = static_cast<std::int32_t>(vertex);
    found += leads(vertex);
    if (found < in_block) continue;
    linker.add_block(heads, found);
    found = 0;
    if (chains.blocks.size() % 64 == 0 && worker.is_interrupted()) return;
  }
  if (found > 0) linker.add_block(heads, found);
}

// Lists the slots of each vertex and links neighbours. finder.start(key) prefetches what finder.find(key, start)
// reads; find() returns a vertex or −1, and −1 whenever finder.may_find(start) is false.
template <class Finder>
void connect(Lattice& lattice, const Finder& finder, int threads) {
  const KeyCode& code = *lattice.code;
  const std::int64_t vertices = lattice.vertices;
  const int corners = lattice.corners();
  threads = std::min(threads, 16);  // each has an array of counts
  SlotLists lists(lattice, threads);
  Buffer<std::int32_t> next(static_cast<std::size_t>(corners * vertices));
  Buffer<std::uint8_t> has_previous(static_cast<std::size_t>(corners * vertices));
  for (Chains& chains : lattice.chains) {
    chains.vertices.reserve(vertices);
    chains.blocks.reserve(2 * vertices / block_vertices + 3);  // blocks may be smaller than block_vertices
  }
  Queue axes(corners, threads);
  parallel(threads, [&](const Worker& worker) {
    const auto [first, last] = worker.share(corners * vertices);
    std::fill(has_previous.data() + first, has_previous.data() + last, std::uint8_t{0});
    lists.fill(worker);
    worker.sync();
    const auto [low, high] = worker.share(vertices);
    constexpr std::int64_t batch = 16;
    Key wanted[batch * max_corners];
    std::uint64_t starts[batch * max_corners];
    struct Candidate {
      int at;  // index in wanted
      std::int64_t axis, vertex;
    } candidates[batch * max_corners];
    for (std::int64_t begin = low; begin < high; begin += batch) {
      if (begin % (1 << 14) < batch && worker.is_interrupted()) break;
      const std::int64_t here = std::min(batch, high - begin);
      for (std::int64_t i = 0; i < here; ++i) {
        const Key key = lattice.keys[begin + i];
        const int remainder = code.remainder(key);
        for (int axis = 0; axis < corners; ++axis) {
          wanted[i * corners + axis] = code.next(key, remainder, axis);
          starts[i * corners + axis] = finder.start(wanted[i * corners + axis]);
        }
      }
      // Whether a neighbour exists is hard to predict, so candidates are collected without a branch.
      int count = 0;
      for (int axis = 0; axis < corners; ++axis)
        for (std::int64_t i = 0; i < here; ++i) {
          const auto at = static_cast<int>(i * corners + axis);
          next[axis * vertices + begin + i] = -1;
          candidates[count] = {at, axis * vertices, begin + i};
          count += finder.may_find(starts[at]);
        }
      for (int k = 0; k < count; ++k) {
        const Candidate& candidate = candidates[k];
        const std::int32_t neighbour = finder.find(wanted[candidate.at], starts[candidate.at]);
        next[candidate.axis + candidate.vertex] = neighbour;
        if (neighbour >= 0) has_previous[candidate.axis + neighbour] = 1;
      }
    }
    worker.sync();
    axes.drain(worker, [&](std::int64_t axis) {
      link(worker, next.data() + axis * vertices, has_previous.data() + axis * vertices, vertices,
           lattice.chains[axis]);
    });
  });
}

}  // namespace densefield
