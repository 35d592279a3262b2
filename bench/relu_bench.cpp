// Apart from batch norm: forward and backward on the stem's activations.

#include "bench/support/numbers.h"
#include "kernels/relu/relu.h"

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

}  // namespace
}  // namespace engine::bench
