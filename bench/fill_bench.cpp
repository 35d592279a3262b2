// A constant into the stem's activations at batch 256, FP16.

#include "bench/support/device.h"
#include "kernels/common/half.h"
#include "kernels/fill/fill.h"

namespace engine::bench {
namespace {

using kernels::Half;

constexpr int64_t kCount = int64_t{256} * 112 * 112 * 64;

const bool kFill = register_device_benchmark("fill/cuda_f16", kCount * 2, [] {
  return
      [y = device_memory(kCount * 2)](cudaStream_t stream) { kernels::fill_cuda(1.0F, y->as<Half>(), kCount, stream); };
});

}  // namespace
}  // namespace engine::bench
