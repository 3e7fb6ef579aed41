// Compiled once per instruction set, with DENSEFIELD_ISA as the namespace of each copy. Only raw pointers and our own
// templates are allowed here: the linker could merge a standard template instantiated with wide instructions into code
// that must run on any processor.
#include "simd/dispatch.hpp"
#include "simd/tile.hpp"

namespace densefield::DENSEFIELD_ISA {

extern const Kernels table;
const Kernels table{.lattice = lattice_kernels, .tile = tile_kernels};

}  // namespace densefield::DENSEFIELD_ISA
