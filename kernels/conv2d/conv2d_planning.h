#pragma once
// Convolution plans for GPUs that are not there: cuDNN 9.8 and later plans for a described one ("Deviceless
// ahead-of-time compilation" in NVIDIA's cuDNN documentation). Needs the library, but neither GPU nor driver.

#include <cstdint>
#include <string>

#include "kernels/conv2d/conv2d_device.h"

namespace engine::kernels {

struct ConvGpu {
  int sm_version = 0;         // 90 for compute capability 9.0
  std::string device_json{};  // the description, as cuDNN's device property descriptor takes it
};

struct PlannedConvolution {
  std::string engine;
  int64_t workspace_bytes = 0;
};

/// The plan that conv2d_plan would choose on such a GPU without search. Without a driver on this machine the engines
/// that are compiled at run time cannot be finished and are passed over. Throws LibraryError where cuDNN is missing
/// from the build or the machine, cannot read the description, or has no plan for the key.
PlannedConvolution plan_convolution(const ConvGpu& gpu, const ConvPlanKey& key, const ConvPlanOptions& options = {});

}  // namespace engine::kernels
