// From bytes to the network's input: 256 pictures of 224x224, normalised, FP16, padded to 4 channels.

#include "bench/support/device.h"
#include "kernels/common/half.h"
#include "kernels/input/input_cuda.h"

namespace engine::bench {
namespace {

using kernels::Half;

constexpr int64_t kPixels = int64_t{256} * 224 * 224;

const bool kInput = register_device_benchmark("input/cuda_f16", kPixels*(3 + 4 * 2), [] {
  return [bytes = device_memory(kPixels * 3), flips = device_memory(256),
          y = device_memory(kPixels * 8)](cudaStream_t stream) {
    const kernels::InputSpec spec{.n = 256, .h = 224, .w = 224, .c = 3, .c_padded = 4, .pixel = {}};
    kernels::input_cuda(spec, bytes->as<uint8_t>(), flips->as<uint8_t>(), y->as<Half>(), stream);
  };
});

}  // namespace
}  // namespace engine::bench
