#include "memory.hpp"

#include <mutex>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace densefield {

namespace {

constexpr std::size_t most_kept = std::size_t{512} << 20;  // what a batch in training takes; of others, what they took

struct Block {
  void* memory;
  std::size_t bytes;
};

void release(const Block& block) noexcept { ::operator delete(block.memory, std::align_val_t{huge_page}); }

// Never destroyed, since buffers may outlive static objects.
struct Kept {
  std::mutex mutex;
  std::vector<Block> blocks;  // least recently given first
  std::size_t bytes = 0;
};
Kept& kept() {
  static Kept* const instance = new Kept;
  return *instance;
}

}  // namespace

// Whoever finds the lock taken goes to the system: so nobody waits, and a process forked while it was taken goes on.
void* take_block(std::size_t& bytes) {
  bytes = (bytes + huge_page - 1) / huge_page * huge_page;
  Kept& cache = kept();
  if (std::unique_lock lock(cache.mutex, std::try_to_lock); lock) {
    auto best = cache.blocks.end();
    for (auto block = cache.blocks.begin(); block != cache.blocks.end(); ++block)
      if (block->bytes >= bytes && block->bytes <= 2 * bytes && (best == cache.blocks.end() || block->bytes < best->bytes))
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

void give_block(void* block, std::size_t bytes) noexcept {
  Kept& cache = kept();
  if (std::unique_lock lock(cache.mutex, std::try_to_lock); lock && bytes <= most_kept) {
    try {
      cache.blocks.push_back({block, bytes});
      cache.bytes += bytes;
      while (cache.bytes > most_kept) {
        cache.bytes -= cache.blocks.front().bytes;
        release(cache.blocks.front());
        cache.blocks.erase(cache.blocks.begin());
      }
      return;
    } catch (...) {  // no memory to note it down
    }
  }
  release({block, bytes});
}

}  // namespace densefield
