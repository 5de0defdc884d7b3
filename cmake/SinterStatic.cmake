# What runs once for a kernel, a file or a reader, and waits for another compiler, a disk or a person: made small. In a
# library these stand last: of a function that several have the linker takes the first one's.
set(sinter_small_parts "/(cuda_source|debug|observe|onnx)\\.cpp$")

# What makes a static library of Sinter's definitions: here, and in projects that compile them from the headers.
function(sinter_static_library target)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME sinter POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  foreach(configuration IN LISTS CMAKE_CONFIGURATION_TYPES CMAKE_BUILD_TYPE)   # its name is an option of the linker, below
    string(TOUPPER "${configuration}" configuration)
    set_property(TARGET ${target} PROPERTY ${configuration}_POSTFIX "")
  endforeach()
  # A library that hides its own symbols keeps its copy of Sinter to itself: with some functions hidden and some replaced by
  # another library's, two copies would be half mixed.
  target_link_options(${target} INTERFACE
    "$<$<AND:$<PLATFORM_ID:Linux>,$<STREQUAL:$<TARGET_PROPERTY:CXX_VISIBILITY_PRESET>,hidden>>:LINKER:--exclude-libs,libsinter.a>")
  # Each function and table is a section of its own, and the linker of a program leaves out those that it does not reach:
  # linear algebra, Fourier transforms, importers, solvers. The property SINTER_KEEP_SECTIONS of a target leaves all in.
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
    target_link_options(${target} INTERFACE
      "$<$<AND:$<PLATFORM_ID:Linux>,$<NOT:$<BOOL:$<TARGET_PROPERTY:SINTER_KEEP_SECTIONS>>>>:LINKER:--gc-sections>")
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "${sinter_small_parts}")
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release,RelWithDebInfo>:-Os>")
  endif()
endfunction()
