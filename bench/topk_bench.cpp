// Top-5 hits among 1000 classes, a validation batch of 256.

#include "bench/support/numbers.h"
#include "kernels/topk/topk.h"

namespace engine::bench {
namespace {

const bool kCorrect = register_memory_benchmark("topk/correct", 4 * 256 * 1000, [] {
  return [logits = random_floats(256 * 1000, 1), labels = std::vector<int64_t>(256, 3)] {
    benchmark::DoNotOptimize(kernels::topk_correct_cpu(logits.data(), labels.data(), 256, 1000, 5));
  };
});

}  // namespace
}  // namespace engine::bench
