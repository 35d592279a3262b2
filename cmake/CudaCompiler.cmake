# Which nvcc, for which chips, with which host compiler: answered before CMake turns its CUDA language on, so that what
# cannot work is said in one sentence. Nothing here needs a GPU. Works in any project and in scripts.

# Where scripts/install_cuda.sh puts what it brings.
get_filename_component(engine_cuda_installed "${CMAKE_CURRENT_LIST_DIR}/../build" ABSOLUTE)
set(engine_cuda_installed "${engine_cuda_installed}/cuda-toolkit;${engine_cuda_installed}/cuda-headers")

# engine_cuda_places(OUT ROOTS WHEEL...): the existing folders of each root that may have include/, lib/ or bin/: the
# root itself, and where NVIDIA's wheels lie in a site-packages folder or a virtual environment.
function(engine_cuda_places out roots)
  set(places "")
  foreach(root IN LISTS roots)
    get_filename_component(root "${root}" ABSOLUTE)
    foreach(site IN ITEMS "${root}" "${root}/lib/python3*/site-packages")
      set(patterns "${site}")
      foreach(wheel IN LISTS ARGN)
        list(APPEND patterns "${site}/nvidia/${wheel}")
      endforeach()
      file(GLOB matches LIST_DIRECTORIES true ${patterns} "${site}/nvidia/cu[0-9]*")
      list(APPEND places ${matches})
    endforeach()
  endforeach()
  set(${out} "${places}" PARENT_SCOPE)
endfunction()

# engine_find_nvcc(OUT): path of nvcc, or empty. What the user named comes first (CMAKE_CUDA_COMPILER, CUDACXX,
# ENGINE_CUDA_ROOT, CUDA_HOME), then /usr/local/cuda, PATH, distributions' folders, and what scripts/install_cuda.sh
# made.
function(engine_find_nvcc out)
  unset(engine_nvcc)
  set(named "${CMAKE_CUDA_COMPILER}")
  if(NOT named AND NOT ENGINE_CUDA_ROOT)
    set(named "$ENV{CUDACXX}")
  endif()
  engine_cuda_places(places "${ENGINE_CUDA_ROOT}")
  engine_cuda_places(installed "${engine_cuda_installed}")
  if(named)
    find_program(engine_nvcc NAMES ${named} NO_CACHE)
  else()
    find_program(
      engine_nvcc nvcc NO_CACHE NO_DEFAULT_PATH PATH_SUFFIXES bin
      PATHS ${places} $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda ENV PATH /usr/lib/nvidia-cuda-toolkit /opt/cuda
            ${installed})
  endif()
  if(NOT engine_nvcc)
    set(engine_nvcc "")
  endif()
  set(${out} "${engine_nvcc}" PARENT_SCOPE)
endfunction()

# engine_cuda_top(NVCC OUT): the toolkit's folder, the one with include/ and lib/.
function(engine_cuda_top nvcc out)
  get_filename_component(real "${nvcc}" REALPATH)
  get_filename_component(bin "${real}" DIRECTORY)
  get_filename_component(top "${bin}" DIRECTORY)
  set(${out} "${top}" PARENT_SCOPE)
endfunction()

# engine_nvcc_version(NVCC OUT): "13.0.88", or empty where nvcc does not say.
function(engine_nvcc_version nvcc out)
  execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "V([0-9]+\\.[0-9]+\\.[0-9]+)" matched "${text}")
  set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# The chips of this machine as "90-real;...", empty where no GPU answers.
function(engine_native_architectures nvcc out)
  get_filename_component(bin "${nvcc}" DIRECTORY)
  execute_process(COMMAND "${bin}/__nvcc_device_query" OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed EQUAL 0)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE answer ERROR_QUIET
                    RESULT_VARIABLE failed)
  endif()
  set(chips "")
  if(failed EQUAL 0)
    string(REGEX MATCHALL "[0-9]+(\\.[0-9])?" chips "${answer}")
    list(TRANSFORM chips REPLACE "\\." "")
    list(REMOVE_DUPLICATES chips)
    list(TRANSFORM chips APPEND "-real")
  endif()
  set(${out} "${chips}" PARENT_SCOPE)
endfunction()

# engine_cuda_architectures(NVCC WANTED OUT): for CMAKE_CUDA_ARCHITECTURES. A wish wins; none, or "native" where no GPU
# answers, gives sm_80, sm_90 and sm_100, as far as this nvcc knows them, and PTX of the last for later chips.
function(engine_cuda_architectures nvcc wanted out)
  set(chips "")
  if(wanted STREQUAL "native")
    engine_native_architectures("${nvcc}" chips)
  elseif(wanted)
    set(chips "${wanted}")
  endif()
  if(NOT chips)
    set(chips 80 90 100)
    execute_process(COMMAND "${nvcc}" --list-gpu-arch OUTPUT_VARIABLE answer ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+" known "${answer}")
    foreach(chip IN LISTS chips)
      if(known AND NOT chip IN_LIST known)
        list(REMOVE_ITEM chips ${chip})
      endif()
    endforeach()
    list(POP_BACK chips last)
    list(TRANSFORM chips APPEND "-real")
    list(APPEND chips ${last})
    if(wanted STREQUAL "native")
      message(STATUS "CUDA: architecture \"native\" asked for, but no GPU answers here: building for \"${chips}\"")
    endif()
  endif()
  set(${out} "${chips}" PARENT_SCOPE)
endfunction()

# engine_compiler_identity(COMPILER KIND VERSION): "g++" or "clang++" and the first number of its version, by its own
# macros; empty where it does not answer.
function(engine_compiler_identity compiler kind version)
  set(${kind} "" PARENT_SCOPE)
  execute_process(COMMAND "${compiler}" -dM -E -x c++ /dev/null OUTPUT_VARIABLE macros ERROR_QUIET)
  if(macros MATCHES "#define __clang_major__ ([0-9]+)")
    set(${kind} clang++ PARENT_SCOPE)
  elseif(macros MATCHES "#define __GNUC__ ([0-9]+)")
    set(${kind} g++ PARENT_SCOPE)
  endif()
  set(${version} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# engine_host_compiler_limit(NVCC KIND OUT): the newest version that nvcc takes, read off the toolkit's header which
# refuses others; empty where it tells no limit.
function(engine_host_compiler_limit nvcc kind out)
  set(${out} "" PARENT_SCOPE)
  engine_cuda_top("${nvcc}" top)
  file(GLOB headers "${top}/include/crt/host_config.h" "${top}/targets/*/include/crt/host_config.h"
       /usr/include/crt/host_config.h)
  if(NOT headers)
    return()
  endif()
  list(GET headers 0 header)
  file(READ "${header}" text)
  if(kind STREQUAL "g++" AND text MATCHES "#if __GNUC__ > ([0-9]+)")
    set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  elseif(kind STREQUAL "clang++" AND text MATCHES "\n#if \\(__clang_major__ >= ([0-9]+)\\)")
    math(EXPR limit "${CMAKE_MATCH_1} - 1")
    set(${out} ${limit} PARENT_SCOPE)
  endif()
endfunction()

# Stops where nvcc would refuse the host compiler, unless the user told nvcc not to look.
function(engine_check_host_compiler nvcc host)
  engine_compiler_identity("${host}" kind got)
  engine_host_compiler_limit("${nvcc}" "${kind}" limit)
  if(NOT limit OR NOT got GREATER limit OR CMAKE_CUDA_FLAGS MATCHES "allow-unsupported-compiler")
    return()
  endif()
  engine_nvcc_version("${nvcc}" version)
  message(
    FATAL_ERROR
      "CUDA: nvcc ${version} (${nvcc}) takes host compilers up to ${kind} ${limit}, but ${host} is ${kind} ${got}. "
      "Install an older one and name it: -DCMAKE_CUDA_HOST_COMPILER=/usr/bin/${kind}-${limit}. docs/cuda.md has the "
      "table. The build without CUDA (cmake --preset release) does not need it.")
endfunction()
