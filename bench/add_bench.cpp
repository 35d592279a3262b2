// Gradient accumulation over all of ResNet-50's parameters, and a sum of activations.
// On a device: gradients of all parameters, and sums of activations.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/add/add.h"
#include "kernels/add/add_cuda.h"

namespace engine::bench {
namespace {

const bool kAccumulate = register_memory_benchmark("add/accumulate", 12 * kParameters, [] {
  return [src = random_floats(kParameters, 1), dst = Floats(kParameters)]() mutable {
    kernels::add_accumulate_cpu(src.data(), dst.data(), kParameters);
  };
});

const bool kForward = register_memory_benchmark("add/forward", 12 * kLargeActivation, [] {
  return [a = random_floats(kLargeActivation, 1), b = random_floats(kLargeActivation, 2),
          y = Floats(kLargeActivation)]() mutable {
    kernels::add_forward_cpu(a.data(), b.data(), y.data(), kLargeActivation);
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  const auto work = [](int64_t count) {
    const int64_t bytes = count * int64_t{sizeof(T)};
    return [=] {
      return DeviceWork{
          .enqueue =
              [=, a = device_memory(bytes), b = device_memory(bytes), y = device_memory(bytes)](cudaStream_t stream) {
                kernels::add_forward_cuda(a->as<T>(), b->as<T>(), y->as<T>(), count, stream);
              },
          .bytes = 3 * bytes};
    };
  };
  register_device_benchmark("add/cuda_" + type + "/parameters", work(kDeviceParameters));
  for (const Activation& at : device_activations()) {
    register_device_benchmark("add/cuda_" + type + '/' + at.name(), work(at.elements()));
  }
});

}  // namespace
}  // namespace engine::bench
