#include "tests/support/device.h"

#include "engine/core/emulation.h"

namespace engine::testing {

void DeviceTest::SetUp() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(status);
  }
  if constexpr (!kernels::kBuiltWithCuda) start_kernel_check();
  kernels::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

void DeviceTest::TearDown() {
  if (stream_ == nullptr) return;
  synchronize();
  kernels::check_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  if constexpr (!kernels::kBuiltWithCuda) {
    EXPECT_NO_THROW(require_sound_kernels());
    stop_kernel_check();
  }
}

template <>
std::vector<kernels::Half> stored(const std::vector<float>& values) {
  std::vector<kernels::Half> result;
  for (const float value : values) result.emplace_back(value);
  return result;
}

template <>
std::vector<kernels::BFloat16> stored(const std::vector<float>& values) {
  std::vector<kernels::BFloat16> result;
  for (const float value : values) result.emplace_back(value);
  return result;
}

}  // namespace engine::testing
