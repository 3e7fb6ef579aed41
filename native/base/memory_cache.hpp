// A cache of large memory blocks for the next image. New blocks come from the system page by page and zeroed, which
// takes a tenth of the time of an inference. Blocks not used for some seconds are released.
#pragma once

#include <cstddef>

namespace densefield {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

// Aligned to huge pages; throws std::bad_alloc. `bytes` becomes the size of the block, which may be larger.
void* allocate_block(std::size_t& bytes);
void free_block(void* block, std::size_t bytes) noexcept;

// Releases blocks that have not been used for some seconds; returns the bytes still cached.
std::size_t release_old_blocks() noexcept;
// Releases all blocks; returns their bytes.
std::size_t release_blocks() noexcept;

}  // namespace densefield
