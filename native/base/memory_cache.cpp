#include "base/memory_cache.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace densefield {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto max_idle = std::chrono::seconds(5);
constexpr std::size_t default_megabytes = 512;  // enough for a batch in training

struct Block {
  void* memory;
  std::size_t bytes;
  Clock::time_point given;
};

void release(void* memory) noexcept { ::operator delete(memory, std::align_val_t{huge_page}); }

// DENSEFIELD_CACHE_MB in megabytes; 0 disables the cache.
std::size_t most_bytes() {
  const char* given = std::getenv("DENSEFIELD_CACHE_MB");
  std::size_t megabytes = default_megabytes;
  if (given && *given) {
    char* end = nullptr;
    const unsigned long long number = std::strtoull(given, &end, 10);
    if (*end == 0 && *given != '-') megabytes = std::min<std::size_t>(number, std::size_t{1} << 30);
  }
  return megabytes << 20;
}

// Never destroyed, since buffers may outlive static objects.
struct Cache {
  const std::size_t most = most_bytes();
  std::mutex mutex;
  std::vector<Block> blocks;  // least recently used first
  std::size_t bytes = 0;

  void drop_first() noexcept {
    bytes -= blocks.front().bytes;
    release(blocks.front().memory);
    blocks.erase(blocks.begin());
  }
  void drop_old() noexcept {
    const auto before = Clock::now() - max_idle;
    while (!blocks.empty() && blocks.front().given < before) drop_first();
  }
};
Cache& the_cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

}  // namespace

// If the lock is taken, memory comes from the system: no call waits, and a process forked meanwhile does not hang.
void* allocate_block(std::size_t& bytes) {
  bytes = (bytes + huge_page - 1) / huge_page * huge_page;
  Cache& cache = the_cache();
  if (std::unique_lock lock(cache.mutex, std::try_to_lock); lock) {
    auto best = cache.blocks.end();
    for (auto block = cache.blocks.begin(); block != cache.blocks.end(); ++block)
      if (block->bytes >= bytes && block->bytes <= 2 * bytes &&
          (best == cache.blocks.end() || block->bytes < best->bytes))
        best = block;
    if (best != cache.blocks.end()) {
      const Block found = *best;
      cache.blocks.erase(best);
      cache.bytes -= found.bytes;
      bytes = found.bytes;
      return found.memory;
    }
  }
  void* memory = ::operator new(bytes, std::align_val_t{huge_page});
#ifdef __linux__
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}

void free_block(void* block, std::size_t bytes) noexcept {
  Cache& cache = the_cache();
  if (std::unique_lock lock(cache.mutex, std::try_to_lock); lock && bytes <= cache.most) {
    try {
      cache.drop_old();
      cache.blocks.push_back({block, bytes, Clock::now()});
      cache.bytes += bytes;
      while (cache.bytes > cache.most) cache.drop_first();
      return;
    } catch (...) {  // no memory for the entry
    }
  }
  release(block);
}

std::size_t release_old_blocks() noexcept {
  Cache& cache = the_cache();
  const std::unique_lock lock(cache.mutex, std::try_to_lock);
  if (!lock) return 1;  // in use
  cache.drop_old();
  return cache.bytes;
}

std::size_t release_blocks() noexcept {
  Cache& cache = the_cache();
  const std::unique_lock lock(cache.mutex, std::try_to_lock);
  if (!lock) return 0;
  const std::size_t bytes = cache.bytes;
  while (!cache.blocks.empty()) cache.drop_first();
  return bytes;
}

}  // namespace densefield
