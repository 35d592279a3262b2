// Activations times a number in device memory.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "kernels/scale/scale.h"

namespace engine::bench {
namespace {

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const Activation& at : device_activations()) {
    const int64_t count = at.elements(), bytes = count * int64_t{sizeof(T)};
    register_device_benchmark("scale/cuda_" + type + '/' + at.name(), [=] {
      return DeviceWork{
          .enqueue =
              [=, x = device_memory(bytes), factor = device_memory(4), y = device_memory(bytes)](cudaStream_t stream) {
                kernels::scale_cuda(x->as<T>(), factor->as<float>(), y->as<T>(), count, stream);
              },
          .bytes = 2 * bytes};
    });
  }
});

}  // namespace
}  // namespace engine::bench
