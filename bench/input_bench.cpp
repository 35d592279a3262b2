// From bytes to the network's input: pictures normalised, and padded to 4 channels for 16-bit types.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "kernels/input/input_cuda.h"

namespace engine::bench {
namespace {

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  for (const kernels::InputSpec& spec :
       {kernels::InputSpec{.n = device_extent(256, 2), .h = device_extent(224, 64), .w = device_extent(224, 64)},
        kernels::InputSpec{.n = 64, .h = 28, .w = 28, .c = 1, .c_padded = 1}}) {
    kernels::InputSpec padded = spec;
    if (spec.c == 3 && sizeof(T) == 2) padded.c_padded = 4;
    const std::string shape = std::to_string(spec.n) + 'x' + std::to_string(spec.h) + 'x' + std::to_string(spec.w) +
                              'x' + std::to_string(padded.c_padded);
    register_device_benchmark("input/cuda_" + type + '/' + shape, [padded] {
      const int64_t pixels = padded.n * padded.h * padded.w, in = pixels * padded.c;
      const int64_t out = pixels * padded.c_padded * int64_t{sizeof(T)};
      return DeviceWork{.enqueue =
                            [=, bytes = device_memory(in), flips = device_memory(padded.n),
                             y = device_memory(out)](cudaStream_t stream) {
                              kernels::input_cuda(padded, bytes->as<uint8_t>(), flips->as<uint8_t>(), y->as<T>(),
                                                  stream);
                            },
                        .bytes = in + out};
    });
  }
});

}  // namespace
}  // namespace engine::bench
