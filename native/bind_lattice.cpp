#include "bindings.hpp"

namespace densefield {

void bind_lattice(nanobind::module_&) {}

}  // namespace densefield
