// The kernels of the Gaussian on a pixel grid, for one instruction set.
#pragma once

#include "grid_block.hpp"
#include "grid_blur.hpp"
#include "grid_kernels.hpp"
#include "grid_nodes.hpp"

namespace densefield::DENSEFIELD_ISA {

inline constexpr GridKernels grid_kernels{&pack, &unpack, &blur, &blur_line, &splat, &slice, &dot};

}  // namespace densefield::DENSEFIELD_ISA
