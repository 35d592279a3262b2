# The CUDA build (option ENGINE_CUDA, preset cuda) or, without it, the emulated device: which sources belong to which,
# and what nvcc and the libraries need. Adds to engine-options. docs/cuda.md tells a user about it.

option(ENGINE_CUDA "Build for NVIDIA GPUs; without it the device is emulated on the CPU" OFF)
set(ENGINE_CUDA_ROOT "" CACHE STRING "Folders to look in first for the CUDA toolkit and its libraries: toolkits, \
libraries unpacked by themselves, virtual environments with NVIDIA's wheels")
include(CudaCompiler)

# What info reports; empty where the build has no such part.
foreach(part IN ITEMS CUDA CUDNN CUBLAS NCCL NVML ARCHITECTURES)
  set(ENGINE_BUILT_${part} "")
endforeach()

if(NOT ENGINE_CUDA)
  set(ENGINE_EXCLUDED_SOURCES "_(cudnn|cublas|nccl)[^/]*\\.cpp$")
  return()
endif()

engine_find_nvcc(nvcc)
if(NOT nvcc)
  message(FATAL_ERROR "CUDA: no nvcc found. Name it with -DCMAKE_CUDA_COMPILER=PATH, or a toolkit's folder with "
                      "-DENGINE_CUDA_ROOT=PATH, or bring one with scripts/install_cuda.sh. cmake --preset release "
                      "builds without CUDA.")
endif()
set(CMAKE_CUDA_COMPILER "${nvcc}")
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "$ENV{CUDAHOSTCXX}")
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
engine_check_host_compiler("${nvcc}" "${CMAKE_CUDA_HOST_COMPILER}")
if(NOT CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}")
endif()
engine_cuda_architectures("${nvcc}" "${CMAKE_CUDA_ARCHITECTURES}" CMAKE_CUDA_ARCHITECTURES)

engine_cuda_top("${nvcc}" ENGINE_CUDA_TOP)
set(own_library_path "$ENV{LIBRARY_PATH}")
if(EXISTS "${ENGINE_CUDA_TOP}/lib" AND NOT EXISTS "${ENGINE_CUDA_TOP}/lib64")
  # nvcc of the wheels looks for its runtime in lib64, but the wheels have lib.
  set(ENV{LIBRARY_PATH} "${ENGINE_CUDA_TOP}/lib:${own_library_path}")
endif()
enable_language(CUDA)
set(ENV{LIBRARY_PATH} "${own_library_path}")

include(CudaLibraries)
message(STATUS "CUDA: nvcc ${CMAKE_CUDA_COMPILER_VERSION} (${nvcc}), host compiler ${CMAKE_CUDA_HOST_COMPILER}, "
               "architectures ${CMAKE_CUDA_ARCHITECTURES}")
engine_find_cuda_libraries()
string(REGEX MATCH "^[0-9]+" cuda_major "${CMAKE_CUDA_COMPILER_VERSION}")
find_library(engine_cudart NAMES libcudart.so.${cuda_major} libcudart.so NO_CACHE
             HINTS ${ENGINE_CUDA_TOP} ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} PATH_SUFFIXES lib lib64 REQUIRED)

# The shared runtime, by its full path: cuDNN's headers look for it by name while the program runs, and wheels have no
# libcudart.so. The driver's library is never linked, so that programs start on machines without one.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)

set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # CMake 3.25 and earlier do not know that nvcc 12 has it
endif()
target_compile_definitions(engine-options INTERFACE ENGINE_CUDA)
target_include_directories(engine-options SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_link_libraries(engine-options INTERFACE ${engine_cudart})
set(cuda_options --expt-relaxed-constexpr -lineinfo -Xcompiler=-Wall,-Wextra,-Wshadow)
if(ENGINE_WARNINGS_AS_ERRORS)
  list(APPEND cuda_options -Werror=all-warnings)
endif()
target_compile_options(engine-options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_options}>")

# Libraries are opened while the program runs (kernels/common/library_handles.h), on the loader's path or in the folder
# where the build found them: ENGINE_CUDNN_FOLDER and the like.
set(excluded "_emulated[^/]*\\.cpp$" "^(kernels|tests)/emulator/")
foreach(part IN ITEMS CUDNN CUBLASLT NCCL NVML)
  string(REPLACE "CUBLASLT" "CUBLAS" flag "${part}")
  string(TOLOWER "${flag}" word)
  if(${part}_INCLUDE AND (NOT part STREQUAL "CUDNN" OR CUDNN_FRONTEND_INCLUDE))
    target_compile_definitions(engine-options INTERFACE ENGINE_${flag})
    target_include_directories(engine-options SYSTEM INTERFACE ${${part}_INCLUDE})
    if(${part}_LIBRARY)
      get_filename_component(folder "${${part}_LIBRARY}" DIRECTORY)
      target_compile_definitions(engine-options INTERFACE ENGINE_${flag}_FOLDER="${folder}")
      list(APPEND CMAKE_BUILD_RPATH "${folder}")
    endif()
    set(ENGINE_BUILT_${flag} "${${part}_VERSION}")
  else()
    list(APPEND excluded "_${word}[^/]*\\.cpp$")
  endif()
endforeach()
if(ENGINE_BUILT_CUDNN)
  target_include_directories(engine-options SYSTEM INTERFACE ${CUDNN_FRONTEND_INCLUDE})
endif()
list(JOIN excluded "|" ENGINE_EXCLUDED_SOURCES)
get_filename_component(folder "${engine_cudart}" DIRECTORY)
list(APPEND CMAKE_BUILD_RPATH "${folder}")
list(REMOVE_DUPLICATES CMAKE_BUILD_RPATH)

set(ENGINE_BUILT_CUDA "${CMAKE_CUDA_COMPILER_VERSION}")
string(REGEX MATCHALL "[0-9]+" ENGINE_BUILT_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
list(REMOVE_DUPLICATES ENGINE_BUILT_ARCHITECTURES)
list(JOIN ENGINE_BUILT_ARCHITECTURES ", " ENGINE_BUILT_ARCHITECTURES)
