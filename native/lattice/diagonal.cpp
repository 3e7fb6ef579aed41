// The diagonal of K = S·B·Sᵀ: k(i,i) = bᵢᵀ·G·bᵢ, where G is B restricted to the corners of the simplex of point i.
#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <optional>

#include "lattice/filter.hpp"
#include "lattice/simplex_products.hpp"

namespace densefield {

namespace {

// Both neighbours of every vertex along every axis, −1 if missing.
struct Neighbours {
  explicit Neighbours(const Lattice& lattice)
      : vertices(lattice.vertices),
        next(lattice.corners() * lattice.vertices, -1),
        previous(lattice.corners() * lattice.vertices, -1) {
    for (int axis = 0; axis < lattice.corners(); ++axis) {
      const std::vector<std::int32_t>& chain = lattice.chains[axis].vertices;
      for (std::size_t at = 0; at + 1 < chain.size(); ++at) {
        if (chain[at] < 0) continue;
        const std::int32_t after = chain[at + 1] ^ (chain[at + 1] >> 31);
        next[axis * vertices + chain[at]] = after;
        previous[axis * vertices + after] = chain[at];
      }
    }
  }

  std::int64_t vertices;
  std::vector<std::int32_t> next, previous;
};

// Blurs the unit vectors of a simplex's corners, on the vertices they reach. Rows have a fixed number of columns W ≥
// corners, so that loops are unrolled.
template <int W>
class SimplexBlur {
 public:
  using Columns = std::array<double, W>;

  explicit SimplexBlur(const Neighbours& neighbours) : neighbours_(neighbours), place_(neighbours.vertices, -1) {}
  SimplexBlur(const SimplexBlur&) = delete;
  SimplexBlur& operator=(const SimplexBlur&) = delete;

  void start(const std::int32_t* simplex, int corners) {
    for (const std::int32_t vertex : reached_) place_[vertex] = -1;
    reached_.clear();
    rows_.clear();
    for (int k = 0; k < corners; ++k) {
      reach(simplex[k]);
      rows_.back()[k] = 1;
    }
  }

  void blur(const Pass& pass) {
    const std::int32_t* next = neighbours_.next.data() + pass.axis * neighbours_.vertices;
    const std::int32_t* previous = neighbours_.previous.data() + pass.axis * neighbours_.vertices;
    const std::size_t before = reached_.size();
    for (std::size_t i = 0; i < before; ++i) {
      const std::int32_t vertex = reached_[i];
      if (next[vertex] >= 0) reach(next[vertex]);
      if (previous[vertex] >= 0) reach(previous[vertex]);
    }
    blurred_ = rows_;
    for (std::size_t i = 0; i < reached_.size(); ++i)
      for (const std::int32_t neighbour : {next[reached_[i]], previous[reached_[i]]}) {
        if (neighbour < 0 || place_[neighbour] < 0) continue;
        const Columns& from = rows_[place_[neighbour]];
        Columns& to = blurred_[i];
        for (int k = 0; k < W; ++k) to[k] += pass.tap * from[k];
      }
    rows_.swap(blurred_);
  }

  // Row of a vertex that was reached: one number per corner.
  const Columns& row(std::int32_t vertex) const { return rows_[place_[vertex]]; }
  const std::vector<Columns>& rows() const { return rows_; }

 private:
  void reach(std::int32_t vertex) {
    if (place_[vertex] >= 0) return;
    place_[vertex] = static_cast<std::int32_t>(reached_.size());
    reached_.push_back(vertex);
    rows_.push_back({});
  }

  const Neighbours& neighbours_;
  std::vector<std::int32_t> place_;
  std::vector<std::int32_t> reached_;
  std::vector<Columns> rows_, blurred_;
};

bool palindromic(const std::vector<Pass>& passes) {
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Pass& mirror = passes[passes.size() - 1 - i];
    if (passes[i].axis != mirror.axis || passes[i].tap != mirror.tap) return false;
  }
  return passes.size() % 2 == 0;
}

}  // namespace

template <int W>
void LatticeFilter::diagonal_of(float* out, float magnitude, int threads) const {
  const int corners = lattice_.corners();
  const Neighbours neighbours(lattice_);
  // Palindromic passes are Hᵀ·H, so half of them give G = RᵀR, which reaches far fewer vertices.
  const bool half = palindromic(passes_);
  const std::size_t steps = half ? passes_.size() / 2 : passes_.size();

  std::deque<std::optional<SimplexBlur<W>>> blurs(threads);  // one per worker, as large as the lattice
  parallel_for(threads, lattice_.chunks(), [&](std::int64_t index, int worker) {
    const Chunk chunk = lattice_.chunk(index);
    // Points are sorted by simplex, so that each simplex is computed once.
    std::vector<std::int32_t> points(chunk.points);
    std::iota(points.begin(), points.end(), 0);
    const auto ids = [&](std::int32_t point) { return chunk.ids + std::int64_t{point} * corners; };
    std::sort(points.begin(), points.end(), [&](std::int32_t a, std::int32_t b) {
      return std::lexicographical_compare(ids(a), ids(a) + corners, ids(b), ids(b) + corners);
    });
    if (!blurs[worker]) blurs[worker].emplace(neighbours);
    SimplexBlur<W>& unit_blur = *blurs[worker];
    double gram[W][W];
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i == 0 || !std::equal(ids(points[i]), ids(points[i]) + corners, ids(points[i - 1]))) {
        std::int32_t simplex[max_corners];
        for (int k = 0; k < corners; ++k) simplex[k] = chunk.vertices[ids(points[i])[k]];
        unit_blur.start(simplex, corners);
        for (std::size_t step = 0; step < steps; ++step) unit_blur.blur(passes_[step]);
        if (half) {
          std::fill_n(&gram[0][0], W * W, 0.0);
          for (const auto& row : unit_blur.rows())
            for (int k = 0; k < W; ++k)
              for (int l = 0; l < W; ++l) gram[k][l] += row[k] * row[l];
        } else {
          for (int k = 0; k < corners; ++k) std::copy_n(unit_blur.row(simplex[k]).begin(), corners, gram[k]);
        }
      }
      const float* weight = chunk.weights + std::int64_t{points[i]} * corners;
      double sum = 0;
      for (int k = 0; k < corners; ++k)
        for (int l = 0; l < corners; ++l) sum += weight[k] * gram[k][l] * weight[l];
      out[lattice_.chunk_begin(index) + points[i]] = static_cast<float>(magnitude * sum);
    }
  });
}

void LatticeFilter::diagonal(float* out, float magnitude, int threads) const {
  if (lattice_.points == 0) return;
  if (SimplexProducts::supports(passes_, lattice_.corners())) {
    const SimplexProducts products(lattice_, passes_, threads);
    return parallel_for(threads, lattice_.chunks(),
                        [&](std::int64_t chunk, int) { products.squares(chunk, magnitude, out); });
  }
  return diagonal_of<max_corners>(out, magnitude, threads);
}

}  // namespace densefield
