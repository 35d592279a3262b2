# NVIDIA's libraries beside the toolkit, wherever they lie: ENGINE_CUDA_ROOT, the toolkit, distributions' folders, PyPI
# wheels (which have libcudnn.so.9 and no libcudnn.so). Each one is optional. Wants CudaCompiler.cmake.

# engine_version_in(HEADER PREFIX OUT): "9.19.0" from a header's PREFIX_MAJOR, PREFIX_MINOR, PREFIX_PATCHLEVEL and the
# like; empty where it has none.
function(engine_version_in header prefix out)
  set(numbers "")
  if(prefix AND EXISTS "${header}")
    foreach(part IN ITEMS MAJOR MINOR "PATCH(LEVEL)?")
      file(STRINGS "${header}" line LIMIT_COUNT 1 REGEX "^#define[ \t]+${prefix}_${part}(_VERSION)?[ \t]+[0-9]+")
      if(line MATCHES "[ \t]([0-9]+)")
        list(APPEND numbers ${CMAKE_MATCH_1})
      endif()
    endforeach()
  endif()
  list(JOIN numbers "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# Folders of distributions with headers for this machine: /usr/include/x86_64-linux-gnu. A root other than / counts.
function(engine_multiarch_triples out)
  file(GLOB folders LIST_DIRECTORIES true ${CMAKE_FIND_ROOT_PATH}/usr/include/*-linux-gnu /usr/include/*-linux-gnu)
  list(TRANSFORM folders REPLACE "^.*/" "")
  list(REMOVE_DUPLICATES folders)
  set(${out} "${folders}" PARENT_SCOPE)
endfunction()

# engine_find_cuda_library(NAME HEADER file [PREFIX macros' [VERSION_HEADER file]] [LIBRARY name] WHEEL name) sets
#   NAME_INCLUDE   the header's folder; empty where it, or the library, is missing
#   NAME_LIBRARY   full path of the shared library, the one beside the header where there are several
#   NAME_VERSION   dotted
function(engine_find_cuda_library name)
  cmake_parse_arguments(ARG "" "HEADER;VERSION_HEADER;PREFIX;LIBRARY;WHEEL" "" ${ARGN})
  unset(header)
  unset(library)
  foreach(part IN ITEMS INCLUDE LIBRARY VERSION)
    set(${name}_${part} "" PARENT_SCOPE)
  endforeach()
  engine_cuda_places(named "${ENGINE_CUDA_ROOT}" ${ARG_WHEEL})
  engine_cuda_places(installed "${engine_cuda_installed}" ${ARG_WHEEL})
  # Wheels lie side by side: nvidia/cu13 has nvcc, nvidia/cudnn has cuDNN; cudnn-frontend lies two folders up.
  set(beside ${ENGINE_CUDA_TOP} "${ENGINE_CUDA_TOP}/../${ARG_WHEEL}" "${ENGINE_CUDA_TOP}/../..")
  engine_multiarch_triples(triples)
  list(TRANSFORM triples PREPEND /usr/include/ OUTPUT_VARIABLE system)
  find_path(header ${ARG_HEADER} NO_CACHE HINTS ${named} ${beside} PATHS ${system} /usr/include ${installed}
            PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include)
  if(NOT header)
    return()
  endif()
  if(NOT ARG_VERSION_HEADER)
    set(ARG_VERSION_HEADER ${ARG_HEADER})
  endif()
  engine_version_in("${header}/${ARG_VERSION_HEADER}" "${ARG_PREFIX}" version)
  if(ARG_LIBRARY)
    string(REGEX MATCH "^[0-9]+" major "${version}")
    set(names lib${ARG_LIBRARY}.so.${major} lib${ARG_LIBRARY}.so)
    set(near ../lib ../lib64)
    foreach(triple IN LISTS triples)
      list(APPEND near ../lib/${triple} ../../lib/${triple})
    endforeach()
    find_library(library NAMES ${names} NO_CACHE NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH PATHS ${header}
                 PATH_SUFFIXES ${near})
    find_library(library NAMES ${names} NO_CACHE HINTS ${named} ${beside} PATHS ${installed} PATH_SUFFIXES lib lib64)
    if(NOT library)
      return()
    endif()
    get_filename_component(library "${library}" ABSOLUTE)
    set(${name}_LIBRARY "${library}" PARENT_SCOPE)
  endif()
  get_filename_component(header "${header}" ABSOLUTE)
  set(${name}_INCLUDE "${header}" PARENT_SCOPE)
  set(${name}_VERSION "${version}" PARENT_SCOPE)
endfunction()

# engine_say_found(NAME TITLE CONSEQUENCE): one line about what was found, or what follows from its absence.
function(engine_say_found name title consequence)
  if(NOT ${name}_INCLUDE)
    message(STATUS "${title}: not found; ${consequence}")
    return()
  endif()
  set(found ${${name}_VERSION} ${${name}_LIBRARY} "headers in ${${name}_INCLUDE}")
  list(JOIN found ", " found)
  message(STATUS "${title}: ${found}")
endfunction()

# All of them: sets CUDNN_*, CUDNN_FRONTEND_*, CUBLASLT_*, NCCL_* and NVML_* in the caller.
macro(engine_find_cuda_libraries)
  engine_find_cuda_library(CUDNN HEADER cudnn_version.h PREFIX CUDNN LIBRARY cudnn WHEEL cudnn)
  engine_say_found(CUDNN cuDNN "convolutions run on the project's own kernels. ENGINE_CUDA_ROOT may name a folder that \
has it")
  engine_find_cuda_library(CUDNN_FRONTEND HEADER cudnn_frontend.h PREFIX CUDNN_FRONTEND
                           VERSION_HEADER cudnn_frontend_version.h WHEEL cudnn_frontend)
  engine_say_found(CUDNN_FRONTEND cudnn-frontend "cuDNN is left out, convolutions run on the \
project's own kernels. scripts/install_cuda.sh --headers brings it")
  engine_find_cuda_library(CUBLASLT HEADER cublasLt.h PREFIX CUBLAS_VER VERSION_HEADER cublas_api.h LIBRARY cublasLt
                           WHEEL cublas)
  engine_say_found(CUBLASLT cuBLASLt "it is left out")
  engine_find_cuda_library(NCCL HEADER nccl.h PREFIX NCCL LIBRARY nccl WHEEL nccl)
  engine_say_found(NCCL NCCL "it is left out")
  engine_find_cuda_library(NVML HEADER nvml.h WHEEL nvml_dev)
  engine_say_found(NVML NVML "GPUs are not monitored")
endmacro()
