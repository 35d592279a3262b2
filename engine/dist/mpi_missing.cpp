// Builds without MPI: one process.

#include "engine/core/error.h"
#include "engine/dist/processes.h"

namespace engine {

#if !defined(ENGINE_MPI)
std::string mpi_version() { return ""; }

std::unique_ptr<Communicator> connect_processes(double) {
  if (launched_processes() == 1) return make_single_process();
  throw DeviceError(
      fmt::format("processes: got {} started by an MPI launcher, expected 1: this build has no MPI",
                  launched_processes() == 0 ? "several" : std::to_string(launched_processes())),
      "build it where Open MPI is (Debian: libopenmpi-dev openmpi-bin), or start it without the launcher");
}
#endif

}  // namespace engine
