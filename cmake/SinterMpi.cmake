# The library around MPI, which programs of several processes open at run time. It is built where there is an mpi.h; without
# it everything else is there, and a program that is started as several processes says what is missing.

option(SINTER_MPI "Build the library that runs ranks as MPI processes, where MPI is found" ON)

set(sinter_has_mpi FALSE)
if(SINTER_MPI AND NOT CMAKE_CROSSCOMPILING)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(sinter_has_mpi TRUE)
  endif()
endif()

if(sinter_has_mpi)
  add_library(sinter_mpi MODULE "${PROJECT_SOURCE_DIR}/cmake/mpi/sinter_mpi.cpp")
  target_include_directories(sinter_mpi PRIVATE "${PROJECT_SOURCE_DIR}/include")
  target_link_libraries(sinter_mpi PRIVATE MPI::MPI_CXX)
  target_compile_features(sinter_mpi PRIVATE cxx_std_20)
  set_target_properties(sinter_mpi PROPERTIES CXX_EXTENSIONS OFF LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  set_source_files_properties("${PROJECT_SOURCE_DIR}/cmake/compiled/dist.cpp" PROPERTIES
    COMPILE_DEFINITIONS "SINTER_MPI_LIBRARY=\"${CMAKE_INSTALL_FULL_LIBDIR}/libsinter_mpi.so\"")
  add_dependencies(sinter_compiled sinter_mpi)
  message(STATUS "MPI: ${MPI_CXX_INCLUDE_DIRS}")
else()
  message(STATUS "MPI: not found; ranks are threads (libopenmpi-dev or libmpich-dev brings processes)")
endif()
