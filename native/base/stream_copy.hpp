// Copying with stores that bypass the caches.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define DENSEFIELD_STREAMS 1
#endif

namespace densefield {

// For data that is not read again soon: full cache lines are written without being read first.
inline void stream_copy(const float* from, std::int64_t floats, float* to) {
#ifdef DENSEFIELD_STREAMS
  if (reinterpret_cast<std::uintptr_t>(to) % 64 == 0 && floats % 16 == 0) {
    for (std::int64_t i = 0; i < floats; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    _mm_sfence();  // orders these stores before later ones
    return;
  }
#endif
  std::memcpy(to, from, floats * sizeof(float));
}

}  // namespace densefield
