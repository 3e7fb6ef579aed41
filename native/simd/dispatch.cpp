#include "simd/dispatch.hpp"

#include <stdexcept>

#if defined(DENSEFIELD_X86_KERNELS) && defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#endif

namespace densefield {

namespace baseline {
extern const Kernels table;
}
#ifdef DENSEFIELD_X86_KERNELS
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

namespace {

#ifdef DENSEFIELD_X86_KERNELS
#ifdef _MSC_VER
// The operating system must save the wide registers too (XCR0).
bool runs_avx2() {
  int info[4];
  __cpuid(info, 1);
  const bool fma = info[2] & (1 << 12), osxsave = info[2] & (1 << 27);
  if (!fma || !osxsave || (_xgetbv(0) & 0x6) != 0x6) return false;
  __cpuidex(info, 7, 0);
  return info[1] & (1 << 5);
}
bool runs_avx512() {
  if (!runs_avx2() || (_xgetbv(0) & 0xe6) != 0xe6) return false;
  int info[4];
  __cpuidex(info, 7, 0);
  const unsigned needed = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);  // F, DQ, BW, VL
  return (static_cast<unsigned>(info[1]) & needed) == needed;
}
#else
bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}
#endif
#endif

}  // namespace

std::vector<std::string> available_simd() {
  std::vector<std::string> names{"baseline"};
#ifdef DENSEFIELD_X86_KERNELS
  if (runs_avx2()) names.push_back("avx2");
  if (runs_avx512()) names.push_back("avx512");
#endif
  return names;
}

const Kernels& kernels(const std::string& simd) {
  const std::vector<std::string> names = available_simd();
  const std::string name = simd == "auto" ? names.back() : simd;
  std::string known;
  for (const std::string& candidate : names) {
    if (candidate != name) {
      known += (known.empty() ? "" : ", ") + candidate;
      continue;
    }
#ifdef DENSEFIELD_X86_KERNELS
    if (name == "avx512") return avx512::table;
    if (name == "avx2") return avx2::table;
#endif
    return baseline::table;
  }
  throw std::invalid_argument("simd is '" + simd + "', expected 'auto' or one this processor runs: " + known);
}

}  // namespace densefield
