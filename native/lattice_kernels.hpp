// What the Gaussian on a pixel lattice needs from one instruction set.
#pragma once

namespace densefield {

struct LatticeKernels {};

}  // namespace densefield
