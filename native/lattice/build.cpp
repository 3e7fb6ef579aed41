#include "lattice/lattice.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "base/compiler.hpp"
#include "base/parallel.hpp"
#include "lattice/chains.hpp"
#include "lattice/key_table.hpp"

namespace densefield {

namespace {

constexpr std::int64_t max_chunk_slots = 1 << 16;  // slots are 16-bit numbers
constexpr std::int64_t default_chunk = 8192;
constexpr std::size_t max_ring_vertices = std::size_t{1} << 27;  // their keys take 2 GB

// Copies the features and returns their bounding box in the lattice.
Bounds take_features(Lattice& lattice, const Features& given, const LatticeKernels& kernels, int threads) {
  const Embedding& embedding = lattice.embedding;
  const std::int64_t row = given.row_bytes(embedding.dimension);
  lattice.memory = Buffer<char>(static_cast<std::size_t>(given.points * row));
  lattice.features = {lattice.memory.data(), given.is_double, given.points};
  const std::int64_t piece = 1 << 12, pieces = (given.points + piece - 1) / piece;
  std::vector<Bounds> parts(pieces);
  parallel_for(threads, pieces, [&](std::int64_t i, int) {
    const std::int64_t first = i * piece, here = std::min(piece, given.points - first);
    char* const copy = lattice.memory.data() + first * row;
    std::memcpy(copy, given.row(embedding.dimension, first), here * row);
    kernels.bounds(embedding, copy, given.is_double, here, parts[i]);
  });
  Bounds all = parts[0];
  for (const Bounds& part : parts) {
    all.finite &= part.finite;
    for (int j = 0; j <= embedding.dimension; ++j) {
      all.low[j] = std::min(all.low[j], part.low[j]);
      all.high[j] = std::max(all.high[j], part.high[j]);
    }
  }
  return all;
}

// Embeds the points of one chunk and numbers the vertices they touch; returns the vertices' keys. D is the dimension
// if known at compile time, else 0.
template <int D, class Table>
std::vector<Key> number_corners(Lattice& lattice, const LatticeKernels& kernels, std::int64_t chunk, Table& table) {
  constexpr std::int64_t piece = 256;  // cells of a piece stay in the first-level cache
  const KeyCode& code = *lattice.code;
  const int d = D ? D : lattice.embedding.dimension, corners = d + 1;
  const std::int64_t end = std::min(lattice.chunk_begin(chunk + 1), lattice.points);
  std::int32_t cells[Table::is_narrow ? 1 : piece * max_dimension];
  std::uint64_t bases[Table::is_narrow ? piece : 1];
  table.clear();
  for (std::int64_t first = lattice.chunk_begin(chunk); first < end; first += piece) {
    const std::int64_t here = std::min(piece, end - first);
    kernels.embed(lattice.embedding, lattice.features.row(d, first), lattice.features.is_double, here,
                  Table::is_narrow ? &code.narrow_code() : nullptr, cells, bases,
                  lattice.order.data() + first * corners, lattice.weights.data() + first * corners);
    for (std::int64_t i = 0; i < here; ++i) {
      const std::uint8_t* order = lattice.order.data() + (first + i) * corners;
      std::uint16_t* ids = lattice.ids.data() + (first + i) * corners;
      if constexpr (Table::is_narrow) {
        std::uint64_t simplex[max_corners];
        simplex[0] = bases[i];
        DENSEFIELD_UNROLL
        for (int k = 1; k < corners; ++k) simplex[k] = simplex[k - 1] + code.corner_step(order[d - k + 1]).low;
        for (std::uint32_t missed = table.find_all(simplex, corners, ids); missed != 0; missed &= missed - 1) {
          const int k = std::countr_zero(missed);
          ids[k] = static_cast<std::uint16_t>(table.insert({simplex[k], 0}));
        }
      } else {
        Key key = code.base(cells + i * d);
        for (int k = 0; k < corners; ++k) {
          if (k > 0) key = key + code.corner_step(order[d - k + 1]);
          ids[k] = static_cast<std::uint16_t>(table.insert(key));
        }
      }
    }
  }
  return table.keys();
}

// Dimensions of images and volumes, either without colours, grey or with three.
template <class Table>
std::vector<Key> number_corners(Lattice& lattice, const LatticeKernels& kernels, std::int64_t chunk, Table& table) {
  switch (lattice.embedding.dimension) {
    case 2: return number_corners<2>(lattice, kernels, chunk, table);
    case 3: return number_corners<3>(lattice, kernels, chunk, table);
    case 4: return number_corners<4>(lattice, kernels, chunk, table);
    case 5: return number_corners<5>(lattice, kernels, chunk, table);
    case 6: return number_corners<6>(lattice, kernels, chunk, table);
    default: return number_corners<0>(lattice, kernels, chunk, table);
  }
}

// Finder of vertices in a lattice with a halo.
struct HaloFinder {
  const KeyTable& table;

  std::uint64_t start(const Key&) const { return 0; }
  bool may_find(std::uint64_t) const { return true; }
  std::int32_t find(const Key& key, std::uint64_t) const { return static_cast<std::int32_t>(table.find(key)); }
};

// Numbers the vertices of all chunks, and connects them unless a halo follows. A vertex is owned by the first slot
// that has its key; vertices are numbered in the order of their owners. `keys` (slots) is filled here and read by the
// table, which maps to slots first and to vertices later.
void join_chunks(Lattice& lattice, const std::vector<std::vector<Key>>& chunk_keys, Key* keys, SharedTable table,
                 bool connects, int threads) {
  const std::int64_t slots = lattice.slots(), chunks = lattice.chunks();
  Buffer<std::uint32_t> places(slots);
  Buffer<std::int32_t> owners(slots);  // each worker's from its first slot on
  lattice.vertex_of_slot = Buffer<std::int32_t>(slots);
  lattice.keys = Buffer<Key>(slots);
  std::vector<std::int64_t> owned(threads + 1, 0);
  parallel(threads, [&](const Worker& worker) {
    table.clear(worker);
    const auto [low, high] = worker.share(chunks);
    for (std::int64_t chunk = low; chunk < high; ++chunk)
      std::copy(chunk_keys[chunk].begin(), chunk_keys[chunk].end(), keys + lattice.chunk_slots[chunk]);
    worker.sync();
    const auto [first, last] = worker.share(slots);
    worker.for_pieces(first, last, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) places[slot] = table.insert(static_cast<std::int32_t>(slot));
    });
    worker.sync();
    std::int64_t count = 0;
    for (std::int64_t slot = first; slot < last; ++slot) {
      owners[first + count] = static_cast<std::int32_t>(slot);
      count += table.number(places[slot]) == slot;
    }
    owned[worker.index + 1] = count;
    worker.sync();
    std::int64_t vertex = 0;
    for (int other = 0; other <= worker.index; ++other) vertex += owned[other];
    for (std::int64_t i = first; i < first + count; ++i, ++vertex) {
      lattice.keys[vertex] = keys[owners[i]];
      table.renumber(places[owners[i]], static_cast<std::int32_t>(vertex));
    }
    worker.sync();
    for (std::int64_t slot = first; slot < last; ++slot) lattice.vertex_of_slot[slot] = table.number(places[slot]);
  });
  for (const std::int64_t count : owned) lattice.vertices += count;
  table.read_keys(lattice.keys.data());
  if (connects) connect(lattice, table, threads);
}

// Appends rings of neighbours to the points' own vertices; no slot belongs to them.
void add_rings(Lattice& lattice, int halo, int threads) {
  const KeyCode& code = *lattice.code;
  const int corners = lattice.corners();
  KeyTable all(4 * lattice.vertices);
  for (std::int64_t vertex = 0; vertex < lattice.vertices; ++vertex) all.insert(lattice.keys[vertex]);
  std::size_t ring = 0;
  for (int round = 0; round < halo; ++round) {
    const std::size_t end = all.keys().size();
    for (std::size_t vertex = ring; vertex < end; ++vertex) {
      if (all.keys().size() > max_ring_vertices)
        throw std::length_error("the halo has more than " + std::to_string(max_ring_vertices) + " vertices");
      if (Interrupt* const interrupt = current_interrupt; interrupt && vertex % 1024 == 0) {
        interrupt->poll();
        if (interrupt->requested()) throw Interrupted{};
      }
      const Key key = all.keys()[vertex];
      const int remainder = code.remainder(key);
      for (int axis = 0; axis < corners; ++axis) {
        all.insert(code.next(key, remainder, axis));
        all.insert(code.previous(key, remainder, axis));
      }
    }
    ring = end;
  }
  lattice.vertices = static_cast<std::int64_t>(all.keys().size());
  lattice.keys = Buffer<Key>(all.keys().size());
  std::copy(all.keys().begin(), all.keys().end(), lattice.keys.data());
  connect(lattice, HaloFinder{all}, threads);
}

// Divides points evenly into a number of chunks that suits several threads. If the corners of a chunk exceed 16-bit
// slots it is halved, so that chunks of different lattices on the same points nest. Chunks are multiples of 64 points,
// the tiles of mean field.
std::int64_t choose_chunk(std::int64_t points, int corners) {
  std::int64_t chunks = (points + default_chunk - 1) / default_chunk;
  if (chunks > 1) chunks = (chunks + 3) / 4 * 4;
  const std::int64_t even = (points + chunks - 1) / chunks;
  std::int64_t chunk = (even + 255) / 256 * 256;
  while (chunk * corners > max_chunk_slots) chunk /= 2;
  return chunk;
}

}  // namespace

Chunk Lattice::chunk(std::int64_t index) const {
  const std::int64_t first = chunk_begin(index);
  return {std::min(chunk_points, points - first), corners(), ids.data() + first * corners(),
          weights.data() + first * corners(), vertex_of_slot.data() + chunk_slots[index]};
}

Lattice build_lattice(const Embedding& embedding, const Features& features, int halo, const LatticeKernels& kernels,
                      int threads) {
  Lattice lattice;
  lattice.embedding = embedding;
  lattice.points = features.points;
  lattice.chunk_slots.push_back(0);
  lattice.chains.resize(lattice.corners());
  if (features.points == 0) return lattice;

  const int corners = lattice.corners();
  threads = worth_starting(threads, features.points / 4096);
  if (features.points > std::numeric_limits<std::int32_t>::max() / corners)
    throw std::length_error("too many points for 32-bit indices");
  const Bounds bounds = take_features(lattice, features, kernels, threads);
  if (!bounds.finite) throw std::domain_error("features are not finite");
  lattice.code = std::make_unique<KeyCode>(bounds, embedding, halo + 1);
  const KeyCode& code = *lattice.code;

  lattice.chunk_points = choose_chunk(features.points, corners);
  const std::int64_t chunks = (features.points + lattice.chunk_points - 1) / lattice.chunk_points;
  const auto incidences = static_cast<std::size_t>(features.points * corners);
  lattice.ids = Buffer<std::uint16_t>(incidences);
  lattice.weights = Buffer<float>(incidences);
  lattice.order = Buffer<std::uint8_t>(incidences);
  std::vector<std::vector<Key>> chunk_keys(chunks);
  const auto number_all = [&]<class Table>(std::vector<std::optional<Table>> tables, std::size_t capacity) {
    parallel_for(threads, chunks, [&](std::int64_t chunk, int worker) {
      if (!tables[worker]) tables[worker].emplace(capacity);  // allocated by the thread that uses it
      chunk_keys[chunk] = number_corners(lattice, kernels, chunk, *tables[worker]);
    });
  };
  if (code.is_narrow())
    number_all(std::vector<std::optional<NarrowTable>>(threads), 1 << 15);
  else
    number_all(std::vector<std::optional<KeyTable>>(threads), 1 << 14);

  for (const std::vector<Key>& chunk : chunk_keys)
    lattice.chunk_slots.push_back(lattice.chunk_slots.back() + static_cast<std::int64_t>(chunk.size()));

  Buffer<Key> keys(lattice.slots());
  join_chunks(lattice, chunk_keys, keys.data(), SharedTable(keys.data(), lattice.slots()), halo == 0, threads);
  if (halo > 0) add_rings(lattice, halo, threads);
  return lattice;
}

}  // namespace densefield
