// The pool behind ResNet-50's stem, batch 16. Bytes: the input or its gradient, the output or its gradient, the index.
// On a device: the same at batch 256, and 2x2 windows.

#include <utility>

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/max_pool2d/max_pool2d.h"
#include "kernels/max_pool2d/max_pool2d_cuda.h"

namespace engine::bench {
namespace {

constexpr kernels::Pool2dShape kShape{.n = 16,
                                      .h = 112,
                                      .w = 112,
                                      .c = 64,
                                      .kernel_h = 3,
                                      .kernel_w = 3,
                                      .stride_h = 2,
                                      .stride_w = 2,
                                      .pad_h = 1,
                                      .pad_w = 1};
constexpr int64_t kOutputs = kShape.n * kShape.out_h() * kShape.out_w() * kShape.c;
constexpr int64_t kBytes = 4 * kLargeActivation + 5 * kOutputs;

const bool kForward = register_memory_benchmark("max_pool2d/forward", kBytes, [] {
  return [x = random_floats(kLargeActivation, 1), y = Floats(kOutputs), index = Aligned<uint8_t>(kOutputs)]() mutable {
    kernels::max_pool2d_forward_fast(kShape, x.data(), y.data(), index.data());
  };
});

const bool kBackward = register_memory_benchmark("max_pool2d/backward", kBytes, [] {
  Floats x = random_floats(kLargeActivation, 1), grad_y = random_floats(kOutputs, 2);
  Aligned<uint8_t> index(kOutputs);
  kernels::max_pool2d_forward_fast(kShape, x.data(), Floats(kOutputs).data(), index.data());
  return [grad_x = std::move(x), grad_y = std::move(grad_y), index = std::move(index)]() mutable {
    kernels::max_pool2d_backward_fast(kShape, grad_y.data(), index.data(), grad_x.data());
  };
});

kernels::Pool2dShape halved(const Activation& at) {
  return {.n = at.batch,
          .h = at.size,
          .w = at.size,
          .c = at.channels,
          .kernel_h = 2,
          .kernel_w = 2,
          .stride_h = 2,
          .stride_w = 2};
}

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const auto& [window, shape] : {std::pair<std::string, kernels::Pool2dShape>{"3x3", device_stem_pool()},
                                      {"2x2", halved(device_activations().front())}}) {
    const kernels::Pool2dShape s = shape;
    const int64_t in = s.n * s.h * s.w * s.c, out = s.n * s.out_h() * s.out_w() * s.c;
    const int64_t bytes = in * int64_t{sizeof(T)} + out * int64_t{sizeof(T) + 1};
    register_device_benchmark("max_pool2d_forward/cuda_" + type + '/' + window, [=] {
      return DeviceWork{.enqueue =
                            [=, x = device_memory(in * int64_t{sizeof(T)}), y = device_memory(out * int64_t{sizeof(T)}),
                             index = device_memory(out)](cudaStream_t stream) {
                              kernels::max_pool2d_forward_cuda(s, x->as<T>(), y->as<T>(), index->as<uint8_t>(), stream);
                            },
                        .bytes = bytes};
    });
    register_device_benchmark("max_pool2d_backward/cuda_" + type + '/' + window, [=] {
      return DeviceWork{.enqueue =
                            [=, grad_y = device_memory(out * int64_t{sizeof(T)}), index = device_memory(out),
                             grad_x = device_memory(in * int64_t{sizeof(T)})](cudaStream_t stream) {
                              kernels::max_pool2d_backward_cuda(s, grad_y->as<T>(), index->as<uint8_t>(),
                                                                grad_x->as<T>(), stream);
                            },
                        .bytes = bytes};
    });
  }
});

}  // namespace
}  // namespace engine::bench
