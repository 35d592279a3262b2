// The global average pool in front of ResNet-50's classifier, batch 16.

#include "bench/support/numbers.h"
#include "kernels/avg_pool2d/avg_pool2d.h"

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

}  // namespace
}  // namespace engine::bench
