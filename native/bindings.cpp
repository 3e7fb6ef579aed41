// The Python module: what it holds is bound beside what it binds.
#include "bindings.hpp"

#include "dispatch.hpp"

NB_MODULE(_core, module) {
  // A graph of torch that is alive at exit holds its lattices; that is no leak.
  nanobind::set_leak_warnings(false);
  module.def("available_simd", &densefield::available_simd,
             "Instruction sets this processor runs, slowest first.");
  densefield::bind_pixels(module);
  densefield::bind_lattice(module);
  densefield::bind_grid(module);
  densefield::bind_mean_field(module);
  densefield::bind_arrays(module);
}
