// Large blocks of memory, some of which are kept for the next image: the system hands out new ones page by page and
// zeroed, which takes a tenth of the time of an inference.
#pragma once

#include <cstddef>

namespace densefield {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

// Aligned to huge pages; throws std::bad_alloc. `bytes` becomes the block's size, which may be more than asked for.
void* take_block(std::size_t& bytes);
void give_block(void* block, std::size_t bytes) noexcept;

}  // namespace densefield
