#pragma once
// Tests of device code: the real GPU in a CUDA build, else the emulated device.

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/cuda_error.h"
#include "kernels/common/half.h"
#include "tests/support/accelerator.h"

namespace engine::testing {

/// A WatchedAcceleratorTest with a stream.
class DeviceTest : public WatchedAcceleratorTest {
 protected:
  void SetUp() override;
  void TearDown() override;
  cudaStream_t stream() const { return stream_; }
  void synchronize() const { kernels::check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Elements in device memory; T is trivially copyable.
template <typename T>
class DeviceArray {
 public:
  /// Not initialised.
  explicit DeviceArray(size_t count) : count_(count) {
    void* memory = nullptr;
    if (count > 0) kernels::check_cuda(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (count_ == 0) return;
    copy(data_, values.data(), cudaMemcpyHostToDevice);
    // Streams that do not wait for the default one find the values, too.
    kernels::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFree(data_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  size_t size() const { return count_; }
  /// After everything that was launched.
  std::vector<T> read() const {
    std::vector<T> values(count_);
    kernels::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (count_ > 0) copy(values.data(), data_, cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  void copy(void* target, const void* source, cudaMemcpyKind kind) const {
    kernels::check_cuda(cudaMemcpy(target, source, count_ * sizeof(T), kind), "cudaMemcpy");
  }

  size_t count_;
  T* data_ = nullptr;
};

/// Rounds values to a storage type and back, so that device and reference see the same numbers.
template <typename T>
std::vector<T> stored(const std::vector<float>& values) {
  return std::vector<T>(values.begin(), values.end());
}
template <>
std::vector<kernels::Half> stored(const std::vector<float>& values);
template <>
std::vector<kernels::BFloat16> stored(const std::vector<float>& values);

template <typename T>
std::vector<float> as_floats(const std::vector<T>& values) {
  std::vector<float> result;
  for (const T& value : values) result.push_back(static_cast<float>(value));
  return result;
}

/// Unit roundoff of a storage type, for tolerance().
template <typename T>
inline constexpr double kUnitRoundoff = 0x1p-24;
template <>
inline constexpr double kUnitRoundoff<kernels::Half> = 0x1p-11;
template <>
inline constexpr double kUnitRoundoff<kernels::BFloat16> = 0x1p-8;

using StorageTypes = ::testing::Types<float, kernels::Half, kernels::BFloat16>;

}  // namespace engine::testing
