// The bias of SimpleCNN's convolution, batch 64.
// On a device: SimpleCNN's convolution and the two networks' classifiers.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/bias/bias.h"
#include "kernels/bias/bias_cuda.h"

namespace engine::bench {
namespace {

constexpr int64_t kRows = 64 * 26 * 26, kChannels = 32, kCount = kRows * kChannels;

const bool kForward = register_memory_benchmark("bias/forward_in_place", 8 * kCount, [] {
  return [x = random_floats(kCount, 1), bias = random_floats(kChannels, 2)]() mutable {
    kernels::bias_forward_cpu(x.data(), bias.data(), x.data(), kRows, kChannels);
  };
});

const bool kBackward = register_memory_benchmark("bias/backward", 4 * kCount, [] {
  return [grad_y = random_floats(kCount, 1), gradient = Floats(kChannels)]() mutable {
    kernels::bias_backward_cpu(grad_y.data(), gradient.data(), kRows, kChannels);
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const auto& [rows, channels] :
       {std::pair<int64_t, int64_t>{device_extent(64 * 26 * 26, 2048), 32}, {256, 1000}, {64, 10}}) {
    const int64_t height = rows, width = channels, bytes = height * width * int64_t{sizeof(T)};
    const std::string shape = std::to_string(rows) + 'x' + std::to_string(channels);
    register_device_benchmark("bias_forward/cuda_" + type + '/' + shape, [=] {
      return DeviceWork{
          .enqueue =
              [=, x = device_memory(bytes), bias = device_memory(width * int64_t{sizeof(T)}),
               y = device_memory(bytes)](cudaStream_t stream) {
                kernels::bias_forward_cuda<T>(
                    {.x = x->as<T>(), .bias = bias->as<T>(), .y = y->as<T>(), .rows = height, .channels = width},
                    stream);
              },
          .bytes = 2 * bytes};
    });
    register_device_benchmark("bias_backward/cuda_" + type + '/' + shape, [=] {
      const auto workspace_bytes = static_cast<int64_t>(kernels::bias_backward_workspace_bytes(height, width));
      return DeviceWork{.enqueue =
                            [=, grad_y = device_memory(bytes), gradient = device_memory(width * 4),
                             workspace = device_memory(workspace_bytes)](cudaStream_t stream) {
                              kernels::bias_backward_cuda<T>({.grad_y = grad_y->as<T>(),
                                                              .grad_bias = gradient->as<float>(),
                                                              .rows = height,
                                                              .channels = width,
                                                              .workspace = workspace->as<void>()},
                                                             stream);
                            },
                        .bytes = bytes};
    });
  }
});

}  // namespace
}  // namespace engine::bench
