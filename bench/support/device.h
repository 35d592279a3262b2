#pragma once
// Benchmarks of kernels on a device: a GPU, or the emulated device, where they run once at small extents, which shows
// that they work and what they move, but no speed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/common/cuda_error.h"
#include "kernels/common/element_type.h"
#include "kernels/common/half.h"

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
DeviceMemory device_copy_of(const void* values, int64_t bytes);
template <typename T>
DeviceMemory device_copy_of(const std::vector<T>& values) {
  return device_copy_of(values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
}

/// Puts work on a stream.
using Enqueue = std::function<void(cudaStream_t)>;

/// Seconds that the device takes for one of `runs` runs, by events before the first and behind the last of them, whose
/// end is waited for; `warm_ups` runs come before. Launches take no time of their own, as long as they are faster than
/// what they launch.
double device_seconds(const Enqueue& enqueue, int runs, int warm_ups);

/// What a benchmark enqueues again and again.
struct DeviceWork {
  Enqueue enqueue;
  int64_t bytes = 0;  // that it moves, by its op's header; 0 where memory is not what limits it
  double flops = 0;   // floating-point operations; 0: not counted
};

struct DeviceBenchmark {
  std::string name;
  std::function<DeviceWork()> make;
};

/// All that are registered in the program.
const std::vector<DeviceBenchmark>& device_benchmarks();

/// A benchmark "OP[_DIRECTION]/cuda_TYPE[_...]/...", timed by device_seconds. With bytes it reports bytes_per_second
/// and of_copy, their share of the rate at which this GPU copies memory (above 1 where its L2 cache holds everything);
/// with flops it reports tflops. The emulated device reports neither. Without a device it is skipped with the reason.
bool register_device_benchmark(const std::string& name, const std::function<DeviceWork()>& make);

/// The full extent on a GPU, the small one on the emulated device.
constexpr int64_t device_extent(int64_t full, int64_t small) { return kernels::kBuiltWithCuda ? full : small; }

/// f.operator()<T>("f32") for float, likewise Half and BFloat16. True, for initialisers.
template <typename F>
bool for_storage_types(F f) {
  f.template operator()<float>(std::string("f32"));
  f.template operator()<kernels::Half>(std::string("f16"));
  f.template operator()<kernels::BFloat16>(std::string("bf16"));
  return true;
}

template <typename T>
inline constexpr kernels::ElementType kElementType = kernels::ElementType::f32;
template <>
inline constexpr kernels::ElementType kElementType<kernels::Half> = kernels::ElementType::f16;
template <>
inline constexpr kernels::ElementType kElementType<kernels::BFloat16> = kernels::ElementType::bf16;

}  // namespace engine::bench
