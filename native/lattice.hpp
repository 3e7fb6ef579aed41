#pragma once

#include "lattice_kernels.hpp"

namespace densefield::DENSEFIELD_ISA {

inline constexpr LatticeKernels lattice_kernels{};

}  // namespace densefield::DENSEFIELD_ISA
