# Targets mirror folders: a folder's sources are globbed, so that a new op or test edits no list.

add_library(engine-options INTERFACE)
target_include_directories(engine-options INTERFACE ${CMAKE_SOURCE_DIR})
set(cxx_options -Wall -Wextra -Wpedantic -Wshadow)  # nvcc has its own, in Cuda.cmake
if(ENGINE_WARNINGS_AS_ERRORS)
  list(APPEND cxx_options -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports overlaps inside std::string's operator+ that cannot happen (GCC bug 105651).
  list(APPEND cxx_options -Wno-restrict)
endif()
if(ENGINE_CPU_ARCH)
  list(APPEND cxx_options -march=${ENGINE_CPU_ARCH})
endif()
if(ENGINE_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(engine-options INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(engine-options INTERFACE ENGINE_SANITIZED)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code makes GCC see uninitialised members inside std::regex and std::function that are none.
    list(APPEND cxx_options -Wno-maybe-uninitialized)
  endif()
endif()
if(ENGINE_FUZZ)
  list(APPEND sanitizers -fsanitize=fuzzer-no-link)
endif()
if(ENGINE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND cxx_options -Wno-subobject-linkage)  # takes the included files for headers
endif()
# A target with the property ENGINE_UNSANITIZED goes without.
target_compile_options(
  engine-options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_options}>"
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:ENGINE_UNSANITIZED>>>>:${sanitizers}>")

# engine_sources(OUT GLOB|GLOB_RECURSE pattern...): what the patterns, relative to the root, match and this build has
# (ENGINE_EXCLUDED_SOURCES of Cuda.cmake), as absolute paths.
function(engine_sources out glob)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
  file(${glob} sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${patterns})
  list(FILTER sources EXCLUDE REGEX "${ENGINE_EXCLUDED_SOURCES}")
  list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/)
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# engine_module(NAME FOLDER [RECURSE] [SEPARATE] [EXCLUDE regex] DEPENDS ... PRIVATE ...): static library engine-NAME of
# a folder's sources. SEPARATE: its files share names in unnamed namespaces, and are never compiled together.
function(engine_module name folder)
  cmake_parse_arguments(ARG "RECURSE;SEPARATE" "EXCLUDE" "DEPENDS;PRIVATE" ${ARGN})
  set(glob GLOB)
  if(ARG_RECURSE)
    set(glob GLOB_RECURSE)
  endif()
  engine_sources(sources ${glob} ${folder}/*.cpp)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${ARG_EXCLUDE})
  endif()
  set(kind STATIC)
  if(ENGINE_SHARED_KERNELS AND name STREQUAL "kernels")
    set(kind SHARED)
  endif()
  add_library(engine-${name} ${kind} ${sources})
  target_link_libraries(engine-${name} PUBLIC engine-options ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
  if(ENGINE_UNITY_BUILD AND NOT ARG_SEPARATE)
    set_target_properties(engine-${name} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()
