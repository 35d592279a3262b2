// Bound by the random numbers, not by memory.

#include "bench/support/numbers.h"
#include "kernels/dropout/dropout.h"

namespace engine::bench {
namespace {

constexpr int64_t kCount = 1 << 22;

const bool kForward = register_memory_benchmark("dropout/forward", 8 * kCount, [] {
  return [x = random_floats(kCount, 1), y = Floats(kCount)]() mutable {
    kernels::dropout_forward_cpu({.probability = 0.5, .seed = 1}, x.data(), y.data(), kCount);
  };
});

}  // namespace
}  // namespace engine::bench
