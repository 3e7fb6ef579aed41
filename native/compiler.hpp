// What compilers are told beyond the language.
#pragma once

// Asks for memory that will be read soon.
#if defined(__GNUC__) || defined(__clang__)
#define DENSEFIELD_FETCH(address) __builtin_prefetch(address, 0, 2)
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
