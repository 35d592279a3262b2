// Parameters to and from the 16-bit types, and the bytes of a batch of pictures to float.
// On a device: gradients and weights between float and the 16-bit types, and activations.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/cast/cast.h"
#include "kernels/cast/cast_cuda.h"

namespace engine::bench {
namespace {

template <typename From, typename To>
bool register_cast(const char* name) {
  return register_memory_benchmark(name, kParameters * int64_t{sizeof(From) + sizeof(To)}, [] {
    return [x = Aligned<From>(kParameters), y = Aligned<To>(kParameters)]() mutable {
      kernels::cast_cpu(x.data(), y.data(), kParameters);
    };
  });
}

const bool kRegistered[] = {
    register_cast<float, kernels::BFloat16>("cast/float_to_bfloat16"),
    register_cast<kernels::BFloat16, float>("cast/bfloat16_to_float"),
    register_cast<float, kernels::Half>("cast/float_to_half"),
    register_cast<kernels::Half, float>("cast/half_to_float"),
    register_cast<uint8_t, float>("cast/byte_to_float"),
};

template <typename From, typename To>
bool register_device_cast(const std::string& name, int64_t count) {
  return register_device_benchmark(name, [=] {
    return DeviceWork{
        .enqueue = [=, x = device_memory(count * int64_t{sizeof(From)}),
                    y = device_memory(count * int64_t{sizeof(To)})](
                       cudaStream_t stream) { kernels::cast_cuda(x->as<From>(), y->as<To>(), count, stream); },
        .bytes = count * int64_t{sizeof(From) + sizeof(To)}};
  });
}

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  register_device_cast<float, T>("cast/cuda_f32_to_" + type + "/parameters", kDeviceParameters);
  if (sizeof(T) == 2) register_device_cast<T, float>("cast/cuda_" + type + "_to_f32/parameters", kDeviceParameters);
  const Activation at = device_activations().front();
  register_device_cast<float, T>("cast/cuda_f32_to_" + type + '/' + at.name(), at.elements());
});

}  // namespace
}  // namespace engine::bench
