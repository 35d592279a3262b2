// The largest 3x3 filter of ResNet-50 and SimpleCNN's Linear to PyTorch's order.

#include "bench/support/numbers.h"
#include "kernels/permute/permute.h"

namespace engine::bench {
namespace {

bool register_permute(const char* name, int64_t outer, int64_t spatial, int64_t channels) {
  const int64_t count = outer * spatial * channels;
  return register_memory_benchmark(name, 8 * count, [=] {
    return [=, x = random_floats(count, 1), y = Floats(static_cast<size_t>(count))]() mutable {
      kernels::permute_channels_first_cpu(x.data(), y.data(), outer, spatial, channels);
    };
  });
}

const bool kRegistered[] = {
    register_permute("permute/filter_3x3x512", 512, 9, 512),
    register_permute("permute/linear_26x26x32", 10, 26 * 26, 32),
};

}  // namespace
}  // namespace engine::bench
