// The pool behind ResNet-50's stem, batch 16. Bytes: the input or its gradient, the output or its gradient, the index.

#include <utility>

#include "bench/support/numbers.h"
#include "kernels/max_pool2d/max_pool2d.h"

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

}  // namespace
}  // namespace engine::bench
