#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

namespace densefield {

void bind_pixels(nanobind::module_& module);
void bind_lattice(nanobind::module_& module);
void bind_grid(nanobind::module_& module);
void bind_mean_field(nanobind::module_& module);
void bind_arrays(nanobind::module_& module);

}  // namespace densefield
