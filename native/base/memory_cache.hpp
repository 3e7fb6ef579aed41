// Large blocks of memory, some of which are kept for the next image: the system hands out new ones page by page and
// zeroed, which takes a tenth of the time of an inference. Blocks that were not used for some seconds go back.
#pragma once

#include <cstddef>

namespace densefield {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

// Aligned to huge pages; throws std::bad_alloc. `bytes` becomes the block's size, which may be more than asked for.
void* allocate_block(std::size_t& bytes);
void free_block(void* block, std::size_t bytes) noexcept;

// Gives blocks that have not been used for a while back to the system; returns the bytes that are still kept.
std::size_t release_old_blocks() noexcept;
// Gives all of them back, and returns how many bytes they had.
std::size_t release_blocks() noexcept;

}  // namespace densefield
