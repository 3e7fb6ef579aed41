// The Python module densefield._core.
#include "python/bindings.hpp"

#include "simd/dispatch.hpp"

namespace densefield {

bool ReleasedGil::on_main_thread() {
  try {
    const nanobind::module_ threading = nanobind::module_::import_("threading");
    return threading.attr("current_thread")().is(threading.attr("main_thread")());
  } catch (nanobind::python_error&) {  // while the interpreter shuts down
    return false;
  }
}

}  // namespace densefield

NB_MODULE(_core, module) {
  // A graph of torch that is alive at exit holds its lattices; that is no leak.
  nanobind::set_leak_warnings(false);
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const densefield::Interrupted&) {
      // The signal handler has set its exception already.
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
  });
  nanobind::class_<densefield::Cancellation>(module, "Cancellation")
      .def(nanobind::init<>())
      .def("cancel", &densefield::Cancellation::cancel)
      .def("enter", &densefield::Cancellation::enter)
      .def("leave", &densefield::Cancellation::leave);
  module.def("available_simd", &densefield::available_simd, "Instruction sets this processor runs, slowest first.");
  densefield::bind_pixels(module);
  densefield::bind_lattice(module);
  densefield::bind_mean_field(module);
  densefield::bind_arrays(module);
  densefield::bind_mask_edges(module);
  densefield::bind_colour_mixture(module);
}
