// A stem's filter with a fourth channel.

#include "bench/support/device.h"
#include "bench/support/device_shapes.h"
#include "bench/support/numbers.h"
#include "kernels/pad_channels/pad_channels.h"
#include "kernels/pad_channels/pad_channels_cuda.h"

namespace engine::bench {
namespace {

constexpr kernels::PadChannels kStem{.rows = 64 * 7 * 7, .channels = 3, .padded = 4};
constexpr int64_t kNarrow = kStem.rows * kStem.channels, kWide = kStem.rows * kStem.padded;

const bool kForward = register_memory_benchmark("pad_channels/forward", 4 * (kNarrow + kWide), [] {
  return [x = random_floats(kNarrow, 1), y = Floats(kWide)]() mutable {
    kernels::pad_channels_forward_cpu(kStem, x.data(), y.data());
  };
});

const bool kDevice = for_storage_types([]<typename T>(const std::string& type) {
  constexpr int64_t kSize = sizeof(T);
  register_device_benchmark("pad_channels_forward/cuda_" + type, [] {
    return DeviceWork{.enqueue =
                          [x = device_memory(kNarrow * kSize), y = device_memory(kWide * kSize)](cudaStream_t stream) {
                            kernels::pad_channels_forward_cuda(kStem, x->as<T>(), y->as<T>(), stream);
                          },
                      .bytes = (kNarrow + kWide) * kSize};
  });
  register_device_benchmark("pad_channels_backward/cuda_" + type, [] {
    return DeviceWork{
        .enqueue =
            [grad_y = device_memory(kWide * kSize), grad_x = device_memory(kNarrow * kSize)](cudaStream_t stream) {
              kernels::pad_channels_backward_cuda(kStem, grad_y->as<T>(), grad_x->as<T>(), stream);
            },
        .bytes = 2 * kNarrow * kSize};
  });
});

}  // namespace
}  // namespace engine::bench
