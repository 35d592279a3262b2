# Open MPI, by which the processes of a run start and talk to each other. A build where it is missing has one process.
# Adds to ENGINE_EXCLUDED_SOURCES, after Cuda.cmake.

find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  message(STATUS "MPI: ${MPI_CXX_VERSION}, ${MPIEXEC_EXECUTABLE}")
else()
  message(STATUS "MPI: not found; one process only. Debian's packages are libopenmpi-dev and openmpi-bin")
  string(APPEND ENGINE_EXCLUDED_SOURCES "|_mpi[^/]*\\.cpp$")
endif()
