// ResNet-50's stem, batch 16. Bytes: forward reads x twice and writes y and the index; backward reads x twice,
// grad_y and the index, and writes grad_x.
// On a device: the same at batch 256.

#include <cstddef>
#include <utility>

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool_cuda.h"

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

struct Stem {
  Floats x = random_floats(kLargeActivation, 1), y = random_floats(kOutputs, 2);
  Floats grad_x = Floats(kLargeActivation);
  Aligned<uint8_t> index = Aligned<uint8_t>(kOutputs);
  Floats gamma = Floats(64, 1.0F), beta = Floats(64), mean = beta, invstd = beta, grad_gamma = beta, grad_beta = beta;
  Aligned<std::byte> memory =
      Aligned<std::byte>(static_cast<size_t>(kernels::bn_relu_max_pool_workspace_bytes(kShape)));

  void forward() {
    kernels::bn_relu_max_pool_forward_fast(kernels::BnReluMaxPoolForward<float>{.shape = kShape,
                                                                                .x = x.data(),
                                                                                .gamma = gamma.data(),
                                                                                .beta = beta.data(),
                                                                                .y = y.data(),
                                                                                .index = index.data(),
                                                                                .saved_mean = mean.data(),
                                                                                .saved_invstd = invstd.data(),
                                                                                .workspace = memory.data()});
  }

  void backward() {
    kernels::bn_relu_max_pool_backward_fast(kernels::BnReluMaxPoolBackward<float>{.shape = kShape,
                                                                                  .x = x.data(),
                                                                                  .grad_y = y.data(),
                                                                                  .index = index.data(),
                                                                                  .gamma = gamma.data(),
                                                                                  .mean = mean.data(),
                                                                                  .invstd = invstd.data(),
                                                                                  .grad_x = grad_x.data(),
                                                                                  .grad_gamma = grad_gamma.data(),
                                                                                  .grad_beta = grad_beta.data(),
                                                                                  .workspace = memory.data()});
  }
};

const bool kForward = register_memory_benchmark("bn_relu_max_pool/forward", 8 * kLargeActivation + 5 * kOutputs,
                                                [] { return [stem = Stem()]() mutable { stem.forward(); }; });

const bool kBackward = register_memory_benchmark("bn_relu_max_pool/backward", 12 * kLargeActivation + 5 * kOutputs, [] {
  Stem prepared;
  prepared.forward();
  return [stem = std::move(prepared)]() mutable { stem.backward(); };
});

template <typename T>
struct DeviceStem {
  kernels::Pool2dShape shape = device_stem_pool();
  int64_t in = shape.n * shape.h * shape.w * shape.c, out = shape.n * shape.out_h() * shape.out_w() * shape.c;
  DeviceMemory x = device_memory(in * int64_t{sizeof(T)}), y = device_memory(out * int64_t{sizeof(T)}),
               grad_x = device_memory(in * int64_t{sizeof(T)}), index = device_memory(out),
               vectors = device_memory(shape.c * 8 * 4),
               workspace = device_memory(kernels::bn_relu_max_pool_cuda_workspace_bytes(shape));

  float* vector(int which) const { return vectors->as<float>() + which * shape.c; }

  void forward(cudaStream_t stream) const {
    kernels::bn_relu_max_pool_forward_cuda<T>({.shape = shape,
                                               .x = x->as<T>(),
                                               .gamma = vector(0),
                                               .beta = vector(1),
                                               .y = y->as<T>(),
                                               .index = index->as<uint8_t>(),
                                               .running_mean = vector(2),
                                               .running_var = vector(3),
                                               .saved_mean = vector(4),
                                               .saved_invstd = vector(5),
                                               .workspace = workspace->as<std::byte>()},
                                              stream);
  }

  void backward(cudaStream_t stream) const {
    kernels::bn_relu_max_pool_backward_cuda<T>({.shape = shape,
                                                .x = x->as<T>(),
                                                .grad_y = y->as<T>(),
                                                .index = index->as<uint8_t>(),
                                                .gamma = vector(0),
                                                .mean = vector(4),
                                                .invstd = vector(5),
                                                .grad_x = grad_x->as<T>(),
                                                .grad_gamma = vector(6),
                                                .grad_beta = vector(7),
                                                .workspace = workspace->as<std::byte>()},
                                               stream);
  }
};

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  register_device_benchmark("bn_relu_max_pool_forward/cuda_" + type, [] {
    const DeviceStem<T> stem;
    return DeviceWork{.enqueue = [stem](cudaStream_t stream) { stem.forward(stream); },
                      .bytes = 2 * stem.in * int64_t{sizeof(T)} + stem.out * int64_t{sizeof(T) + 1}};
  });
  register_device_benchmark("bn_relu_max_pool_backward/cuda_" + type, [] {
    const DeviceStem<T> stem;
    return DeviceWork{.enqueue = [stem](cudaStream_t stream) { stem.backward(stream); },
                      .bytes = 3 * stem.in * int64_t{sizeof(T)} + 2 * stem.out * int64_t{sizeof(T) + 1}};
  });
});

}  // namespace
}  // namespace engine::bench
