#pragma once
// The first pass of batch norm in training, for the kernels that build on it.

#include <cstddef>
#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

template <typename T>
struct BatchStatisticsCuda {
  int64_t rows = 0;
  int64_t channels = 0;
  double eps = 1e-5;
  double momentum = 0.1;
  const T* x = nullptr;            // [rows, channels]
  const float* gamma = nullptr;    // [channels]
  float* running_mean = nullptr;   // [channels], updated unless null
  float* running_var = nullptr;    // [channels], likewise
  float* saved_mean = nullptr;     // [channels], overwritten
  float* saved_invstd = nullptr;   // [channels], overwritten
  std::byte* workspace = nullptr;  // batch_norm_cuda_workspace_bytes
};

/// Reads x once. Returns where in the workspace gamma * invstd will lie, float [channels].
template <typename T>
const float* batch_statistics_cuda(const BatchStatisticsCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
