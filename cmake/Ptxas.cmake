# Target ptxas, part of all: registers, spills and shared memory of every kernel, in ptxas.json in the build folder,
# where the kernel report looks for them; test ptxas fails where a kernel spills. With CUDA the numbers are those of the
# build itself. Without, but where nvcc is there, the kernels are compiled for sm_90 just for this, unless ENGINE_PTXAS
# is off; a compiler that cannot do so is no reason to stop.

# engine_ptxas_report(KERNELS SOURCE...): KERNELS is the library that holds the sources.
function(engine_ptxas_report kernels)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  if(NOT ARGN OR NOT Python3_FOUND)
    return()
  endif()
  set(launcher ${CMAKE_SOURCE_DIR}/cmake/ptxas_log.sh)
  if(ENGINE_CUDA)
    set(own_launcher ${launcher} ${CMAKE_CUDA_COMPILER_LAUNCHER})
    target_compile_options(${kernels} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
    set_target_properties(${kernels} PROPERTIES CUDA_COMPILER_LAUNCHER "${own_launcher}")
    set(objects "$<FILTER:$<TARGET_OBJECTS:${kernels}>,INCLUDE,\\.cu\\.o$>")
    set(needed "${objects}")
  else()
    engine_find_nvcc(nvcc)
    if(NOT nvcc OR ENGINE_SANITIZE OR NOT ENGINE_PTXAS)
      return()
    endif()
    message(STATUS "CUDA: ${nvcc} tells the kernels' registers; nothing else of it is used")
    set(objects "")
    set(needed "")
    foreach(source IN LISTS ARGN)
      file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR} ${source})
      set(object ${CMAKE_BINARY_DIR}/ptxas/${name}.cubin)
      get_filename_component(folder ${object} DIRECTORY)
      file(MAKE_DIRECTORY ${folder})
      add_custom_command(
        OUTPUT ${object}.ptxas
        COMMAND ${launcher} ${nvcc} -cubin -arch=sm_90 -w -O3 -std=c++20 --expt-relaxed-constexpr -Xptxas=-v
                -DENGINE_CUDA -I${CMAKE_SOURCE_DIR} -MD -MF ${object}.d -MT ${object}.ptxas -o ${object} ${source} ||
                ${CMAKE_COMMAND} -E touch ${object}.ptxas
        DEPENDS ${source}
        DEPFILE ${object}.d
        COMMENT "Registers of ${name}"
        VERBATIM)
      list(APPEND objects ${object})
      list(APPEND needed ${object}.ptxas)
    endforeach()
  endif()
  set(report ${CMAKE_BINARY_DIR}/ptxas.json)
  set(script ${CMAKE_SOURCE_DIR}/scripts/check_ptxas.py)
  add_custom_command(
    OUTPUT ${report}
    COMMAND ${Python3_EXECUTABLE} ${script} --write ${report} "${objects}"
    DEPENDS "${needed}" ${script}
    COMMENT "Writing ptxas.json"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(ptxas ALL DEPENDS ${report})
  if(ENGINE_BUILD_TESTS)
    add_test(NAME ptxas COMMAND ${Python3_EXECUTABLE} ${script} ${report})
  endif()
endfunction()
