// Compiler-specific macros: prefetching and loop unrolling.
#pragma once

// Prefetch of memory that will be read, or written, soon. GCC removes functions that only prefetch as having no effect;
// the volatile statement keeps them.
#if defined(__GNUC__) || defined(__clang__)
#define DENSEFIELD_PREFETCH_WRITE(address) __builtin_prefetch(address, 1)
#define DENSEFIELD_PREFETCH(address)   \
  do {                                 \
    __builtin_prefetch(address, 0, 2); \
    __asm__ volatile("");              \
  } while (false)
#else
#define DENSEFIELD_PREFETCH_WRITE(address) ((void)0)
#define DENSEFIELD_PREFETCH(address) ((void)0)
#endif

// Unrolls the loop that follows.
#if defined(__clang__)
#define DENSEFIELD_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define DENSEFIELD_UNROLL _Pragma("GCC unroll 8")
#else
#define DENSEFIELD_UNROLL
#endif
