# Sources of the core without Python, shared by the extension module and the stress test.
set(DENSEFIELD_SOURCES
  base/memory_cache.cpp
  base/thread_load.cpp
  base/thread_pool.cpp
  image/colour_mixture.cpp
  image/label_distance.cpp
  image/mask_edges.cpp
  lattice/build.cpp
  lattice/calibrate.cpp
  lattice/diagonal.cpp
  lattice/filter.cpp
  lattice/point_moments.cpp
  lattice/vertex_moments.cpp
  mean_field/backward.cpp
  mean_field/mean_field.cpp
  simd/dispatch.cpp)
# Compiled once per instruction set.
set(DENSEFIELD_KERNELS simd/embed.cpp simd/kernels.cpp)
list(TRANSFORM DENSEFIELD_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM DENSEFIELD_KERNELS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
