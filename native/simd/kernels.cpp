// Compiled once per instruction set, with DENSEFIELD_ISA as the namespace that keeps the copies apart.
// Only raw pointers and our own templates here: a standard template instantiated with wide instructions
// could be merged by the linker into code that must run on any processor.
#include "simd/dispatch.hpp"
#include "simd/tile.hpp"

namespace densefield::DENSEFIELD_ISA {

extern const Kernels table;
const Kernels table{.lattice = lattice_kernels, .tile = tile_kernels};

}  // namespace densefield::DENSEFIELD_ISA
