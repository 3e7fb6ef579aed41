// What the filter walks along: the slots of each vertex, and chains of neighbours.
#pragma once

#include <algorithm>

#include "lattice_build.hpp"
#include "parallel.hpp"

namespace densefield {

inline constexpr std::int64_t block_vertices = 512;  // chains are shared out in blocks of about this size

// slots_of_vertex: a counting sort of slots by vertex, workers taking consecutive ranges of slots.
class SlotLists {
 public:
  SlotLists(Lattice& lattice, int threads)
      : lattice_(lattice), counts_(static_cast<std::size_t>(threads * lattice.vertices)), totals_(threads + 1, 0) {
    lattice.slots_begin = Buffer<std::int32_t>(lattice.vertices + 1);
    lattice.slots_of_vertex = Buffer<std::int32_t>(lattice.slots());
    lattice.slots_begin[lattice.vertices] = static_cast<std::int32_t>(lattice.slots());
  }

  // To be called by every worker.
  void fill(const Worker& worker) {
    const std::int64_t vertices = lattice_.vertices;
    std::int32_t* mine = counts_.data() + worker.index * vertices;
    std::fill_n(mine, vertices, 0);
    const auto [first, last] = worker.share(lattice_.slots());
    for (std::int64_t slot = first; slot < last; ++slot) ++mine[lattice_.vertex_of_slot[slot]];
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
    for (std::int64_t slot = first; slot < last; ++slot)
      lattice_.slots_of_vertex[mine[lattice_.vertex_of_slot[slot]]++] = static_cast<std::int32_t>(slot);
  }

 private:
  Lattice& lattice_;
  Buffer<std::int32_t> counts_;  // (workers, vertices)
  std::vector<std::int64_t> totals_;
};

// Whoever follows whom along one axis, as chains. In a block the short ones come first: processors guess well where a
// chain ends if it is as long as the last. Room for all of them has been made before.
class Linker {
 public:
  Linker(const std::int32_t* next, Chains& chains) : next_(next), chains_(chains) { chains.blocks.push_back(0); }

  void add(std::int32_t head) {
    const auto begin = chains_.vertices.size();
    std::int32_t at = head;
    for (std::int32_t following; (following = next_[at]) >= 0; at = following) chains_.vertices.push_back(at);
    chains_.vertices.push_back(~at);
    lengths_[count_++] = static_cast<std::int64_t>(chains_.vertices.size() - begin);
    if (static_cast<std::int64_t>(chains_.vertices.size()) - chains_.blocks.back() >= block_vertices) end_block();
  }

  void end_block() {
    const std::int64_t begin = chains_.blocks.back(), end = static_cast<std::int64_t>(chains_.vertices.size());
    if (end - begin <= most_sorted) sort(chains_.vertices.data() + begin);
    count_ = 0;
    chains_.blocks.push_back(end);
  }

 private:
  static constexpr int kinds = 8;                               // longer ones are not told apart
  static constexpr std::int64_t most_sorted = 2 * block_vertices;  // of what is larger, most is one long chain

  static int kind_of(std::int64_t length) { return static_cast<int>(std::min<std::int64_t>(length, kinds)) - 1; }

  void sort(std::int32_t* chains) {
    std::int32_t before[most_sorted];
    std::int64_t begin[kinds + 1] = {}, from = 0;
    for (int i = 0; i < count_; ++i) begin[kind_of(lengths_[i]) + 1] += lengths_[i];
    for (int kind = 0; kind < kinds; ++kind) begin[kind + 1] += begin[kind];
    std::copy_n(chains, begin[kinds], before);
    for (int i = 0; i < count_; ++i) {
      std::int64_t& to = begin[kind_of(lengths_[i])];
      for (std::int64_t k = 0; k < lengths_[i]; ++k) chains[to++] = before[from++];
    }
  }

  const std::int32_t* next_;
  Chains& chains_;
  std::int64_t lengths_[block_vertices];  // of the chains of this block, two or more each
  int count_ = 0;
};

inline void link(const std::int32_t* next, const std::uint8_t* has_previous, std::int64_t vertices, Chains& chains) {
  Linker linker(next, chains);
  for (std::int64_t vertex = 0; vertex < vertices; ++vertex)
    if (!has_previous[vertex] && next[vertex] >= 0) linker.add(static_cast<std::int32_t>(vertex));
  linker.end_block();
}

// Lists the slots of each vertex and links neighbours. finder.start(key) sets out to fetch what finder.find(key, start)
// then reads; that gives a vertex or −1.
template <class Finder>
void connect(Lattice& lattice, const Finder& finder, int threads) {
  const KeyCode& code = *lattice.code;
  const std::int64_t vertices = lattice.vertices;
  const int corners = lattice.corners();
  threads = std::min(threads, 16);  // each has a table of counts
  SlotLists lists(lattice, threads);
  Buffer<std::int32_t> next(static_cast<std::size_t>(corners * vertices));
  Buffer<std::uint8_t> has_previous(static_cast<std::size_t>(corners * vertices));
  for (Chains& chains : lattice.chains) {
    chains.vertices.reserve(vertices);
    chains.blocks.reserve(vertices / block_vertices + 3);
  }
  Queue axes(corners);
  parallel(threads, [&](const Worker& worker) {
    const auto [first, last] = worker.share(corners * vertices);
    std::fill(has_previous.data() + first, has_previous.data() + last, std::uint8_t{0});
    lists.fill(worker);
    worker.sync();
    const auto [low, high] = worker.share(vertices);
    constexpr std::int64_t batch = 16;
    Key wanted[batch * max_corners];
    std::uint64_t starts[batch * max_corners];
    for (std::int64_t begin = low; begin < high; begin += batch) {
      const std::int64_t here = std::min(batch, high - begin);
      for (std::int64_t i = 0; i < here; ++i) {
        const Key key = lattice.keys[begin + i];
        const int remainder = code.remainder(key);
        for (int axis = 0; axis < corners; ++axis) {
          wanted[i * corners + axis] = code.next(key, remainder, axis);
          starts[i * corners + axis] = finder.start(wanted[i * corners + axis]);
        }
      }
      for (int axis = 0; axis < corners; ++axis)
        for (std::int64_t i = 0; i < here; ++i) {
          const std::int32_t neighbour = finder.find(wanted[i * corners + axis], starts[i * corners + axis]);
          next[axis * vertices + begin + i] = neighbour;
          if (neighbour >= 0) has_previous[axis * vertices + neighbour] = 1;
        }
    }
    worker.sync();
    std::int64_t axis;
    while (axes.next(axis))
      link(next.data() + axis * vertices, has_previous.data() + axis * vertices, vertices, lattice.chains[axis]);
  });
}

}  // namespace densefield
