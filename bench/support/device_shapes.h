#pragma once
// The shapes of benchmarks on a device: ResNet-50's at batch 256 and SimpleCNN's at batch 64; on the emulated device
// small ones in their place.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/support/device.h"
#include "kernels/common/parameter_chunks.h"
#include "kernels/common/pool2d_shape.h"
#include "kernels/common/step_state.h"

namespace engine::bench {

/// Pictures between layers.
struct Activation {
  std::string where;
  int64_t batch, size, channels;

  int64_t rows() const { return batch * size * size; }
  int64_t elements() const { return rows() * channels; }
  /// "stem_256x112x112x64".
  std::string name() const {
    const std::string side = std::to_string(size);
    return where + '_' + std::to_string(batch) + 'x' + side + 'x' + side + 'x' + std::to_string(channels);
  }
};

inline Activation device_activation(const std::string& where, int64_t batch, int64_t size, int64_t channels) {
  return {where, device_extent(batch, 2), device_extent(size, 16), device_extent(channels, 64)};
}

/// What the stem leaves, a block's end early and late in the network, and SimpleCNN's convolution.
inline std::vector<Activation> device_activations() {
  return {device_activation("stem", 256, 112, 64), device_activation("stage1", 256, 56, 256),
          device_activation("stage4", 256, 7, 2048), device_activation("simple_cnn", 64, 26, 32)};
}

/// The pool behind ResNet's stem.
inline kernels::Pool2dShape device_stem_pool() {
  const Activation x = device_activation("stem", 256, 112, 64);
  return {.n = x.batch,
          .h = x.size,
          .w = x.size,
          .c = x.channels,
          .kernel_h = 3,
          .kernel_w = 3,
          .stride_h = 2,
          .stride_w = 2,
          .pad_h = 1,
          .pad_w = 1};
}

/// Elements of ResNet-50's flat buffers.
inline constexpr int64_t kDeviceParameters = device_extent(25557032, 65536);

/// Its parameters as optimizers get them: those with weight decay and, at the end, those without.
struct DeviceParameters {
  std::vector<kernels::ParameterSegment> segments = {{0, kWithDecay, 1e-4F, true},
                                                     {kWithDecay, kDeviceParameters - kWithDecay, 0, true}};
  std::vector<kernels::ParameterChunk> chunks = kernels::parameter_chunks(segments);
  DeviceMemory table = device_copy_of(chunks);
  /// Applied, and not the first one.
  DeviceMemory state = device_copy_of(
      std::vector<kernels::StepState>{{.lr = 0.1F, .grad_factor = 1, .applied = 1, .applied_steps = 10}});
  DeviceMemory master = device_memory(kDeviceParameters * 4), gradients = device_memory(kDeviceParameters * 4),
               first = device_memory(kDeviceParameters * 4), second = device_memory(kDeviceParameters * 4),
               copy = device_memory(kDeviceParameters * 4);

  int chunk_count() const { return static_cast<int>(chunks.size()); }

 private:
  static constexpr int64_t kWithDecay = kDeviceParameters / 16 * 15 / 8 * 8;
};

}  // namespace engine::bench
