// Bound by the random numbers, not by memory.
// On a device: SimpleCNN's activations and ResNet-50's pooled ones.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_cuda.h"

namespace engine::bench {
namespace {

constexpr int64_t kCount = 1 << 22;

const bool kForward = register_memory_benchmark("dropout/forward", 8 * kCount, [] {
  return [x = random_floats(kCount, 1), y = Floats(kCount)]() mutable {
    kernels::dropout_forward_cpu({.probability = 0.5, .seed = 1}, x.data(), y.data(), kCount);
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const Activation& at : device_activations()) {
    const int64_t count = at.elements(), bytes = count * int64_t{sizeof(T)};
    register_device_benchmark("dropout/cuda_" + type + '/' + at.name(), [=] {
      return DeviceWork{
          .enqueue =
              [=, x = device_memory(bytes), y = device_memory(bytes)](cudaStream_t stream) {
                kernels::dropout_forward_cuda<T>(
                    {.spec = {.probability = 0.5, .seed = 1}, .x = x->as<T>(), .y = y->as<T>(), .count = count},
                    stream);
              },
          .bytes = 2 * bytes};
    });
  }
});

}  // namespace
}  // namespace engine::bench
