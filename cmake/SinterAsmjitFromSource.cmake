# Builds AsmJit from SINTER_ASMJIT_SOURCE_DIR as a position-independent static library. AsmJit's own CMakeLists is not
# used: it sets options and flags for the whole build, and its targets cannot be exported together with ours.

file(GLOB sinter_asmjit_sources CONFIGURE_DEPENDS
     "${SINTER_ASMJIT_SOURCE_DIR}/src/asmjit/core/*.cpp" "${SINTER_ASMJIT_SOURCE_DIR}/src/asmjit/x86/*.cpp")
if(NOT sinter_asmjit_sources)
  message(FATAL_ERROR "SINTER_ASMJIT_SOURCE_DIR=${SINTER_ASMJIT_SOURCE_DIR} holds no src/asmjit/core/*.cpp")
endif()

add_library(sinter_asmjit STATIC ${sinter_asmjit_sources})
target_include_directories(sinter_asmjit SYSTEM INTERFACE
  "$<BUILD_INTERFACE:${SINTER_ASMJIT_SOURCE_DIR}/src>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/sinter/third_party>")
target_include_directories(sinter_asmjit PRIVATE "${SINTER_ASMJIT_SOURCE_DIR}/src")
target_compile_definitions(sinter_asmjit PUBLIC ASMJIT_STATIC ASMJIT_NO_AARCH64 ASMJIT_NO_FOREIGN)
target_compile_options(sinter_asmjit PRIVATE -w -fno-math-errno -fno-threadsafe-statics)
target_link_libraries(sinter_asmjit PRIVATE Threads::Threads $<$<PLATFORM_ID:Linux>:rt>)
set_target_properties(sinter_asmjit PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME asmjit)

install(TARGETS sinter_asmjit EXPORT sinterTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${SINTER_ASMJIT_SOURCE_DIR}/src/asmjit" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sinter/third_party"
        FILES_MATCHING PATTERN "*.h")
