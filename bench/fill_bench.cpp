// A constant into activations.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "kernels/fill/fill.h"

namespace engine::bench {
namespace {

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const Activation& at : device_activations()) {
    const int64_t count = at.elements(), bytes = count * int64_t{sizeof(T)};
    register_device_benchmark("fill/cuda_" + type + '/' + at.name(), [=] {
      return DeviceWork{.enqueue = [=, y = device_memory(bytes)](
                                       cudaStream_t stream) { kernels::fill_cuda(1.0F, y->as<T>(), count, stream); },
                        .bytes = bytes};
    });
  }
});

}  // namespace
}  // namespace engine::bench
