#pragma once

#include "grid_kernels.hpp"

namespace densefield::DENSEFIELD_ISA {

inline constexpr GridKernels grid_kernels{};

}  // namespace densefield::DENSEFIELD_ISA
