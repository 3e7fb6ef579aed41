// What compilers are told beyond the language.
#pragma once

// Asks for memory that will be read soon. Functions that do nothing else, GCC would take for ones without effect and
// leave out; what is volatile it keeps.
#if defined(__GNUC__) || defined(__clang__)
#define DENSEFIELD_FETCH(address)       \
  do {                                  \
    __builtin_prefetch(address, 0, 2);  \
    __asm__ volatile("");               \
  } while (false)
#else
#define DENSEFIELD_FETCH(address) ((void)0)
#endif

// The short loop that follows, written out.
#if defined(__clang__)
#define DENSEFIELD_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define DENSEFIELD_UNROLL _Pragma("GCC unroll 8")
#else
#define DENSEFIELD_UNROLL
#endif
