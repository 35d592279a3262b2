// Builds for a GPU that were made without NCCL: one process.

#include "engine/core/error.h"
#include "engine/dist/device_communicator.h"

namespace engine {

#if defined(ENGINE_CUDA) && !defined(ENGINE_NCCL)
std::unique_ptr<DeviceCommunicator> connect_several_devices(Communicator&, Device) {
  throw DeviceError("NCCL: not part of this build, which trains on one GPU only",
                    "build it where NCCL is (scripts/install_cuda.sh brings it), or start one process");
}
#endif

}  // namespace engine
