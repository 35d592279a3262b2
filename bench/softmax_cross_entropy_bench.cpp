// 1000 classes, batch 16. Bound by exponentials, not by memory.

#include "bench/support/numbers.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"

namespace engine::bench {
namespace {

constexpr kernels::SoftmaxCrossEntropy kSpec{.rows = 16, .classes = 1000, .label_smoothing = 0.1, .normalizer = 16};

const bool kForward = register_memory_benchmark("softmax_cross_entropy/forward", 4 * 16 * 1000, [] {
  return [logits = random_floats(16 * 1000, 1), labels = std::vector<int64_t>(16, 3), loss = 0.0]() mutable {
    kernels::softmax_cross_entropy_forward_cpu(kSpec, logits.data(), labels.data(), &loss);
  };
});

const bool kBackward = register_memory_benchmark("softmax_cross_entropy/backward", 8 * 16 * 1000, [] {
  return [logits = random_floats(16 * 1000, 1), labels = std::vector<int64_t>(16, 3),
          gradient = Floats(16 * 1000)]() mutable {
    kernels::softmax_cross_entropy_backward_cpu(kSpec, logits.data(), labels.data(), 1.0, gradient.data());
  };
});

}  // namespace
}  // namespace engine::bench
