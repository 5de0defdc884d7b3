# Read by find_package(sinter): what sinter::sinter links to. Built on demand, with the project's own compiler and flags.
get_property(sinter_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("CXX" IN_LIST sinter_languages AND NOT TARGET sinter_from_headers)
  include("${CMAKE_CURRENT_LIST_DIR}/SinterStatic.cmake")
  file(GLOB sinter_part_files "${CMAKE_CURRENT_LIST_DIR}/parts/*.cpp")
  set(small ${sinter_part_files})
  list(FILTER small INCLUDE REGEX "${sinter_small_parts}")
  list(REMOVE_ITEM sinter_part_files ${small})
  list(APPEND sinter_part_files ${small})
  add_library(sinter_from_headers STATIC EXCLUDE_FROM_ALL ${sinter_part_files})
  target_compile_definitions(sinter_from_headers PRIVATE SINTER_SEPARATE_COMPILATION)
  target_link_libraries(sinter_from_headers PRIVATE sinter::inline)
  sinter_static_library(sinter_from_headers)
  # The project's warnings, -Werror and checkers are for its own files, and so are its -ffast-math and its unity builds.
  if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    target_compile_options(sinter_from_headers PRIVATE -w -fno-fast-math)
  endif()
  set_target_properties(sinter_from_headers PROPERTIES UNITY_BUILD OFF CXX_CLANG_TIDY "" CXX_CPPCHECK "" CXX_CPPLINT ""
    CXX_INCLUDE_WHAT_YOU_USE "")
endif()
if(NOT TARGET sinter_from_headers)
  # A link item with '::' that is no target stops CMake's generation with its name, and the name says what to do.
  set_property(TARGET sinter::sinter APPEND PROPERTY INTERFACE_LINK_LIBRARIES
    "sinter::sinter::needs_the_language_CXX_where_find_package_is_called")
else()
  set_property(TARGET sinter::sinter APPEND PROPERTY INTERFACE_LINK_LIBRARIES sinter_from_headers)
endif()
