// The global average pool in front of ResNet-50's classifier, batch 16.
// On a device: the same at batch 256, and 2x2 windows.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/avg_pool2d/avg_pool2d.h"
#include "kernels/avg_pool2d/avg_pool2d_cuda.h"

namespace engine::bench {
namespace {

constexpr int64_t kSpatial = 7 * 7, kChannels = 2048, kCount = 16 * kSpatial * kChannels;

const bool kForward = register_memory_benchmark("global_avg_pool/forward", 4 * kCount, [] {
  return [x = random_floats(kCount, 1), y = Floats(16 * kChannels)]() mutable {
    kernels::global_avg_pool_forward_cpu(x.data(), y.data(), 16, kSpatial, kChannels);
  };
});

const bool kBackward = register_memory_benchmark("global_avg_pool/backward", 4 * kCount, [] {
  return [grad_y = random_floats(16 * kChannels, 1), grad_x = Floats(kCount)]() mutable {
    kernels::global_avg_pool_backward_cpu(grad_y.data(), grad_x.data(), 16, kSpatial, kChannels);
  };
});

template <typename T>
void register_device_windows(const std::string& type) {
  const Activation at = device_activations().front();
  const kernels::Pool2dShape s{.n = at.batch,
                               .h = at.size,
                               .w = at.size,
                               .c = at.channels,
                               .kernel_h = 2,
                               .kernel_w = 2,
                               .stride_h = 2,
                               .stride_w = 2};
  const int64_t in = at.elements() * int64_t{sizeof(T)}, out = in / 4;
  register_device_benchmark("avg_pool2d_forward/cuda_" + type + '/' + at.name(), [=] {
    return DeviceWork{
        .enqueue = [=, x = device_memory(in), y = device_memory(out)](
                       cudaStream_t stream) { kernels::avg_pool2d_forward_cuda(s, x->as<T>(), y->as<T>(), stream); },
        .bytes = in + out};
  });
  register_device_benchmark("avg_pool2d_backward/cuda_" + type + '/' + at.name(), [=] {
    return DeviceWork{.enqueue =
                          [=, grad_y = device_memory(out), grad_x = device_memory(in)](cudaStream_t stream) {
                            kernels::avg_pool2d_backward_cuda(s, grad_y->as<T>(), grad_x->as<T>(), stream);
                          },
                      .bytes = in + out};
  });
}

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  register_device_windows<T>(type);
  const int64_t n = device_extent(256, 4), c = device_extent(kChannels, 256), small = n * c * int64_t{sizeof(T)};
  const int64_t large = small * kSpatial;
  register_device_benchmark("global_avg_pool_forward/cuda_" + type, [=] {
    return DeviceWork{.enqueue =
                          [=, x = device_memory(large), y = device_memory(small)](cudaStream_t stream) {
                            kernels::global_avg_pool_forward_cuda(x->as<T>(), y->as<T>(), n, kSpatial, c, stream);
                          },
                      .bytes = large + small};
  });
  register_device_benchmark("global_avg_pool_backward/cuda_" + type, [=] {
    return DeviceWork{.enqueue =
                          [=, grad_y = device_memory(small), grad_x = device_memory(large)](cudaStream_t stream) {
                            kernels::global_avg_pool_backward_cuda(grad_y->as<T>(), grad_x->as<T>(), n, kSpatial, c,
                                                                   stream);
                          },
                      .bytes = large + small};
  });
});

}  // namespace
}  // namespace engine::bench
