#include "bindings.hpp"

namespace densefield {

void bind_grid(nanobind::module_&) {}

}  // namespace densefield
