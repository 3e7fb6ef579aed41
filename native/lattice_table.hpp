// Tables from lattice keys to numbers: one that grows, and one that many threads fill.
#pragma once

#include <atomic>
#include <bit>
#include <memory>
#include <vector>

#include "lattice_keys.hpp"
#include "parallel.hpp"

namespace densefield {

// Numbers distinct keys 0, 1, 2, … in the order in which they first come.
class KeyTable {
 public:
  explicit KeyTable(std::size_t capacity = 1024) : slots_(std::bit_ceil(capacity), empty) {}

  void clear() {
    keys_.clear();
    slots_.assign(slots_.size(), empty);
  }

  std::uint32_t insert(const Key& key) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key.hash() >> 20) & mask;
    for (; slots_[at] != empty; at = (at + 1) & mask)
      if (keys_[slots_[at]] == key) return slots_[at];
    const auto id = static_cast<std::uint32_t>(keys_.size());
    keys_.push_back(key);
    slots_[at] = id;
    if (keys_.size() * 4 > slots_.size()) grow();  // sparse: a second look costs a misprediction
    return id;
  }

  // The key's number, or −1.
  std::int64_t find(const Key& key) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (key.hash() >> 20) & mask; slots_[at] != empty; at = (at + 1) & mask)
      if (keys_[slots_[at]] == key) return slots_[at];
    return -1;
  }

  const std::vector<Key>& keys() const { return keys_; }

 private:
  static constexpr std::uint32_t empty = ~std::uint32_t{0};

  void grow() {
    slots_.assign(slots_.size() * 4, empty);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t id = 0; id < keys_.size(); ++id) {
      std::size_t at = (keys_[id].hash() >> 20) & mask;
      while (slots_[at] != empty) at = (at + 1) & mask;
      slots_[at] = static_cast<std::uint32_t>(id);
    }
  }

  std::vector<Key> keys_;
  std::vector<std::uint32_t> slots_;
};

// A table that many threads fill at once: each entry ends as the least slot that has its key.
class SharedTable {
 public:
  SharedTable(const Key* keys, std::int64_t slots)
      : keys_(keys),
        mask_(std::bit_ceil(static_cast<std::size_t>(2 * slots)) - 1),
        entries_(std::make_unique_for_overwrite<std::atomic<std::int32_t>[]>(mask_ + 1)) {}

  // To be called by every worker before any inserts.
  void clear(const Worker& worker) {
    const auto [first, last] = worker.share(static_cast<std::int64_t>(mask_) + 1);
    for (std::int64_t at = first; at < last; ++at) entries_[at].store(empty, std::memory_order_relaxed);
  }

  // Returns the entry's place, which stays.
  std::uint32_t insert(std::int32_t slot) {
    const Key& key = keys_[slot];
    for (std::size_t at = (key.hash() >> 20) & mask_;; at = (at + 1) & mask_) {
      std::int32_t there = empty;
      if (entries_[at].compare_exchange_strong(there, slot, std::memory_order_relaxed))
        return static_cast<std::uint32_t>(at);
      if (!(keys_[there] == key)) continue;
      while (slot < there && !entries_[at].compare_exchange_weak(there, slot, std::memory_order_relaxed)) {
      }
      return static_cast<std::uint32_t>(at);
    }
  }

  std::int32_t least_slot(std::uint32_t place) const { return entries_[place].load(std::memory_order_relaxed); }

  // The least slot with this key, or −1.
  std::int32_t find(const Key& key) const {
    for (std::size_t at = (key.hash() >> 20) & mask_;; at = (at + 1) & mask_) {
      const std::int32_t there = entries_[at].load(std::memory_order_relaxed);
      if (there == empty || keys_[there] == key) return there;
    }
  }

 private:
  static constexpr std::int32_t empty = -1;
  const Key* keys_;
  std::size_t mask_;
  std::unique_ptr<std::atomic<std::int32_t>[]> entries_;
};

}  // namespace densefield
