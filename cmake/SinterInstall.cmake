# `cmake --install`: headers, the static library and the files that find_package(sinter) reads.
include(CMakePackageConfigHelpers)

set(sinter_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sinter")
set(sinter_needs_asmjit_package FALSE)
if(sinter_has_x86 AND sinter_asmjit_target STREQUAL "asmjit::asmjit")
  set(sinter_needs_asmjit_package TRUE)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/sinter" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS sinter sinter_inline sinter_compiled EXPORT sinterTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(sinter_has_mpi)
  install(TARGETS sinter_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(EXPORT sinterTargets NAMESPACE sinter:: DESTINATION "${sinter_package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/sinterConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/sinterConfig.cmake" INSTALL_DESTINATION "${sinter_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/sinterConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/cmake/compiled/" DESTINATION "${sinter_package_dir}/parts" FILES_MATCHING PATTERN "*.cpp")
install(FILES "${PROJECT_SOURCE_DIR}/cmake/SinterFromHeaders.cmake" "${PROJECT_SOURCE_DIR}/cmake/SinterStatic.cmake"
        DESTINATION "${sinter_package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/sinterConfig.cmake" "${PROJECT_BINARY_DIR}/sinterConfigVersion.cmake"
        DESTINATION "${sinter_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
