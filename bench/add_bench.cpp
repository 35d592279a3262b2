// Gradient accumulation over all of ResNet-50's parameters, and a sum of activations.

#include "bench/support/numbers.h"
#include "kernels/add/add.h"

namespace engine::bench {
namespace {

const bool kAccumulate = register_memory_benchmark("add/accumulate", 12 * kParameters, [] {
  return [src = random_floats(kParameters, 1), dst = Floats(kParameters)]() mutable {
    kernels::add_accumulate_cpu(src.data(), dst.data(), kParameters);
  };
});

const bool kForward = register_memory_benchmark("add/forward", 12 * kLargeActivation, [] {
  return [a = random_floats(kLargeActivation, 1), b = random_floats(kLargeActivation, 2),
          y = Floats(kLargeActivation)]() mutable {
    kernels::add_forward_cpu(a.data(), b.data(), y.data(), kLargeActivation);
  };
});

}  // namespace
}  // namespace engine::bench
