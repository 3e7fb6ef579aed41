// Hash tables from lattice keys to numbers: two for one thread, one shared by all.
#pragma once

#include <atomic>
#include <bit>
#include <memory>
#include <vector>

#include "base/compiler.hpp"
#include "base/parallel.hpp"
#include "lattice/keys.hpp"

namespace densefield {

// Numbers distinct keys 0, 1, 2, … in the order of insertion.
class KeyTable {
 public:
  static constexpr bool is_narrow = false;
  explicit KeyTable(std::size_t capacity = 1024) : slots_(std::bit_ceil(capacity), empty) {}

  std::uint32_t insert(const Key& key) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (key.hash() >> 20) & mask;
    for (; slots_[at] != empty; at = (at + 1) & mask)
      if (keys_[slots_[at]] == key) return slots_[at];
    const auto id = static_cast<std::uint32_t>(keys_.size());
    keys_.push_back(key);
    slots_[at] = id;
    if (keys_.size() * 4 > slots_.size()) grow();  // sparse, since a second probe costs a misprediction
    return id;
  }

  // The key's number, or −1.
  std::int64_t find(const Key& key) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (key.hash() >> 20) & mask; slots_[at] != empty; at = (at + 1) & mask)
      if (keys_[slots_[at]] == key) return slots_[at];
    return -1;
  }

  void clear() {
    keys_.clear();
    slots_.assign(slots_.size(), empty);
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

// The same for at most 2¹⁶ narrow keys: key and number share a word, so one load compares and answers.
class NarrowTable {
 public:
  static constexpr bool is_narrow = true;
  explicit NarrowTable(std::size_t capacity) { resize(std::bit_ceil(capacity)); }

  std::uint32_t insert(const Key& key) {
    for (std::size_t at = home(key);; at = (at + 1) & mask_) {
      const std::uint64_t entry = entries_[at];
      if (entry >> 16 == key.low) return entry & 0xffff;
      if (entry == empty) return add(key, at);
    }
  }

  // Looks up the corners of a simplex in their first probe, where most are; returns the set of the others as bits.
  std::uint32_t find_all(const std::uint64_t* keys, int corners, std::uint16_t* ids) const {
    const std::uint64_t* entries = entries_.data();
    std::uint32_t missed = 0;
    DENSEFIELD_UNROLL
    for (int k = 0; k < corners; ++k) {
      const std::uint64_t entry = entries[home({keys[k], 0})];
      missed |= static_cast<std::uint32_t>(entry >> 16 != keys[k]) << k;
      ids[k] = static_cast<std::uint16_t>(entry);
    }
    return missed;
  }

  void clear() {
    for (const std::uint32_t place : places_) entries_[place] = empty;
    keys_.clear();
    places_.clear();
  }

  const std::vector<Key>& keys() const { return keys_; }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};  // no key, since keys are below 2⁴⁷

  std::size_t home(const Key& key) const {
    const std::uint64_t mixed = key.low * 0x9e3779b97f4a7c15u;
    return (mixed ^ mixed >> 29) >> 8 & mask_;
  }

  std::uint32_t add(const Key& key, std::size_t at) {
    const auto id = static_cast<std::uint32_t>(keys_.size());
    entries_[at] = key.low << 16 | id;
    keys_.push_back(key);
    places_.push_back(static_cast<std::uint32_t>(at));
    if (keys_.size() * 4 > entries_.size()) resize(2 * entries_.size());
    return id;
  }

  void resize(std::size_t size) {
    entries_.assign(size, empty);
    mask_ = size - 1;
    for (std::size_t id = 0; id < keys_.size(); ++id) {
      std::size_t at = home(keys_[id]);
      while (entries_[at] != empty) at = (at + 1) & mask_;
      entries_[at] = keys_[id].low << 16 | id;
      places_[id] = static_cast<std::uint32_t>(at);
    }
  }

  std::vector<Key> keys_;
  std::vector<std::uint32_t> places_;  // index of each key's entry
  std::vector<std::uint64_t> entries_;
  std::size_t mask_;
};

// A table that all threads fill at once: each entry ends with the least number that has its key. Part of the hash is
// stored beside the number, so most lookups of missing keys do not read another key.
class SharedTable {
 public:
  // For numbers below `count`.
  SharedTable(const Key* keys, std::int64_t count)
      : keys_(keys),
        mask_(std::bit_ceil(static_cast<std::size_t>(2 * count)) - 1),
        entries_(std::make_unique_for_overwrite<std::atomic<std::uint64_t>[]>(mask_ + 1)) {}

  // All workers must call it before any inserts.
  void clear(const Worker& worker) {
    const auto [first, last] = worker.share(static_cast<std::int64_t>(mask_) + 1);
    for (std::int64_t at = first; at < last; ++at) entries_[at].store(empty, std::memory_order_relaxed);
  }

  // Returns the index of the entry, which does not change.
  std::uint32_t insert(std::int32_t number) {
    const Key& key = keys_[number];
    const std::uint64_t hash = key.hash(), mine = entry_of(hash, number);
    for (std::size_t at = place_of(hash);; at = (at + 1) & mask_) {
      std::uint64_t there = entries_[at].load(std::memory_order_relaxed);
      if (there == empty && entries_[at].compare_exchange_strong(there, mine, std::memory_order_relaxed))
        return static_cast<std::uint32_t>(at);
      if (!is_of(there, hash, key)) continue;
      while (mine < there && !entries_[at].compare_exchange_weak(there, mine, std::memory_order_relaxed)) {
      }
      return static_cast<std::uint32_t>(at);
    }
  }

  std::int32_t number(std::uint32_t place) const { return number_of(entries_[place].load(std::memory_order_relaxed)); }

  // Gives an entry another number; keys are read by these numbers after read_keys().
  void renumber(std::uint32_t place, std::int32_t number) {
    const std::uint64_t there = entries_[place].load(std::memory_order_relaxed);
    entries_[place].store(there >> 32 << 32 | static_cast<std::uint32_t>(number), std::memory_order_relaxed);
  }
  void read_keys(const Key* keys) { keys_ = keys; }

  // Second argument of find(); prefetches what it reads.
  std::uint64_t start(const Key& key) const {
    const std::uint64_t hash = key.hash();
    DENSEFIELD_PREFETCH(&entries_[place_of(hash)]);
    return hash;
  }

  // False if the first probe is empty, so that find() would return −1.
  bool may_find(std::uint64_t hash) const { return entries_[place_of(hash)].load(std::memory_order_relaxed) != empty; }

  // The number of this key, or −1.
  std::int32_t find(const Key& key, std::uint64_t hash) const {
    for (std::size_t at = place_of(hash);; at = (at + 1) & mask_) {
      const std::uint64_t there = entries_[at].load(std::memory_order_relaxed);
      if (there == empty) return -1;
      if (is_of(there, hash, key)) return number_of(there);
    }
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};  // numbers are below 2³¹

  static std::uint64_t entry_of(std::uint64_t hash, std::int32_t number) {
    return hash << 32 | static_cast<std::uint32_t>(number);
  }
  static std::int32_t number_of(std::uint64_t entry) { return static_cast<std::int32_t>(entry & 0xffffffffu); }
  std::size_t place_of(std::uint64_t hash) const { return hash >> 28 & mask_; }
  bool is_of(std::uint64_t entry, std::uint64_t hash, const Key& key) const {
    return (entry ^ hash << 32) >> 32 == 0 && keys_[number_of(entry)] == key;
  }

  const Key* keys_;
  std::size_t mask_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> entries_;
};

}  // namespace densefield
