// Choice of the instruction set at run time; the kernels are compiled once for each.
#pragma once

#include <string>
#include <vector>

#include "simd/lattice_kernels.hpp"
#include "simd/tile_kernels.hpp"

namespace densefield {

struct Kernels {
  LatticeKernels lattice;
  TileKernels tile;
};

// Instruction sets this processor runs, slowest first: "baseline", "avx2", "avx512".
std::vector<std::string> available_simd();

// The kernels of `simd`, or of the best available set for "auto"; throws std::invalid_argument for others.
const Kernels& kernels(const std::string& simd);

}  // namespace densefield
