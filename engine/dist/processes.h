#pragma once
// How the processes of a run find each other: they are started together by an MPI launcher (mpirun, srun, the
// Kubernetes MPI operator), which tells each of them by environment variables.

#include <memory>
#include <string>

#include "engine/dist/communicator.h"

namespace engine {

/// How many processes the launcher has started: 1 where there is none, 0 where it does not say (srun over PMIx).
int launched_processes();

/// What MPI this build has, e.g. "Open MPI 4.1.4"; empty without.
std::string mpi_version();

/// The communicator of this run; the one of make_single_process() where the process is alone. Call it once, from any
/// thread. Throws PeerError where the others do not come within the timeout, DeviceError where there are others and
/// this build has no MPI.
///
/// A process that gives up after a failure leaves without MPI's own end, which would wait for the lost one: it returns
/// from main, or exits, with its exit code, and the launcher ends whoever is left.
std::unique_ptr<Communicator> connect_processes(double timeout_seconds);

}  // namespace engine
