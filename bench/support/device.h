#pragma once
// Benchmarks of kernels on a GPU.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/common/cuda_error.h"

namespace engine::bench {

/// Device memory for a benchmark; its content does not matter, and is zero.
class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t bytes);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};
using DeviceMemory = std::shared_ptr<DeviceBytes>;
inline DeviceMemory device_memory(int64_t bytes) { return std::make_shared<DeviceBytes>(bytes); }

/// Puts work on a stream.
using Enqueue = std::function<void(cudaStream_t)>;

/// A benchmark "NAME" on the GPU: what `make` returns is enqueued again and again and timed by events, so that launches
/// do not count; first runs are not timed. `bytes` is what its header says it moves. Reports bytes a second and the
/// share of the rate at which this GPU copies memory. Without a GPU it is skipped with the reason: the emulated device
/// has no time.
bool register_device_benchmark(const std::string& name, int64_t bytes, const std::function<Enqueue()>& make);

}  // namespace engine::bench
