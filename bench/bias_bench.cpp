// The bias of SimpleCNN's convolution, batch 64.

#include "bench/support/numbers.h"
#include "kernels/bias/bias.h"

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

}  // namespace
}  // namespace engine::bench
