// What the Gaussian on a pixel grid needs from one instruction set.
#pragma once

namespace densefield {

struct GridKernels {};

}  // namespace densefield
