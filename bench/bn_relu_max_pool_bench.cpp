// ResNet-50's stem, batch 16. Bytes: forward reads x twice and writes y and the index; backward reads x twice,
// grad_y and the index, and writes grad_x.

#include <cstddef>
#include <utility>

#include "bench/support/numbers.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"

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
    kernels::bn_relu_max_pool_forward_fast({.shape = kShape,
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
    kernels::bn_relu_max_pool_backward_fast({.shape = kShape,
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

}  // namespace
}  // namespace engine::bench
