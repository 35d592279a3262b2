// The gradient norm of ResNet-50.

#include "bench/support/numbers.h"
#include "kernels/norm/norm.h"

namespace engine::bench {
namespace {

const bool kNorm = register_memory_benchmark("norm/sum_of_squares", 4 * kParameters, [] {
  return [x = random_floats(kParameters, 1)] {
    benchmark::DoNotOptimize(kernels::sum_of_squares_cpu(x.data(), kParameters));
  };
});

}  // namespace
}  // namespace engine::bench
