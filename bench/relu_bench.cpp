// Apart from batch norm: forward and backward on the stem's activations.
// On a device: activations.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/relu/relu.h"
#include "kernels/relu/relu_cuda.h"

namespace engine::bench {
namespace {

const bool kForward = register_memory_benchmark("relu/forward", 8 * kLargeActivation, [] {
  return [x = random_floats(kLargeActivation, 1), y = Floats(kLargeActivation)]() mutable {
    kernels::relu_forward_cpu(x.data(), y.data(), kLargeActivation);
  };
});

const bool kBackward = register_memory_benchmark("relu/backward_in_place", 12 * kLargeActivation, [] {
  return [y = random_floats(kLargeActivation, 1), grad = random_floats(kLargeActivation, 2)]() mutable {
    kernels::relu_backward_cpu(y.data(), grad.data(), grad.data(), kLargeActivation);
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const Activation& at : device_activations()) {
    const int64_t count = at.elements(), bytes = count * int64_t{sizeof(T)};
    register_device_benchmark("relu_forward/cuda_" + type + '/' + at.name(), [=] {
      return DeviceWork{
          .enqueue = [=, x = device_memory(bytes), y = device_memory(bytes)](
                         cudaStream_t stream) { kernels::relu_forward_cuda(x->as<T>(), y->as<T>(), count, stream); },
          .bytes = 2 * bytes};
    });
    register_device_benchmark("relu_backward/cuda_" + type + '/' + at.name(), [=] {
      return DeviceWork{.enqueue =
                            [=, y = device_memory(bytes), grad_y = device_memory(bytes),
                             grad_x = device_memory(bytes)](cudaStream_t stream) {
                              kernels::relu_backward_cuda(y->as<T>(), grad_y->as<T>(), grad_x->as<T>(), count, stream);
                            },
                        .bytes = 3 * bytes};
    });
  }
});

}  // namespace
}  // namespace engine::bench
