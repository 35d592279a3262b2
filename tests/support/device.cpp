#include "tests/support/device.h"

namespace engine::testing {

void DeviceTest::SetUp() {
  WatchedAcceleratorTest::SetUp();
  if (IsSkipped()) return;
  kernels::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

void DeviceTest::TearDown() {
  if (stream_ != nullptr) {
    synchronize();
    kernels::check_cuda(cudaStreamDestroy(stream_), "cudaStreamDestroy");
  }
  WatchedAcceleratorTest::TearDown();
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
