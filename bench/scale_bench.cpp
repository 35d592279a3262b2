// An array times a number in device memory: the stem's activations at batch 256, FP16.

#include "bench/support/device.h"
#include "kernels/common/half.h"
#include "kernels/scale/scale.h"

namespace engine::bench {
namespace {

using kernels::Half;

constexpr int64_t kCount = int64_t{256} * 112 * 112 * 64;

const bool kScale = register_device_benchmark("scale/cuda_f16", kCount * 4, [] {
  return
      [x = device_memory(kCount * 2), factor = device_memory(4), y = device_memory(kCount * 2)](cudaStream_t stream) {
        kernels::scale_cuda(x->as<Half>(), factor->as<float>(), y->as<Half>(), kCount, stream);
      };
});

}  // namespace
}  // namespace engine::bench
