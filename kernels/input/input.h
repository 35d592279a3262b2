#pragma once
// From decoded pictures to the network's input: torchvision's ToTensor and Normalize, a horizontal flip, and padding of
// the channels.

#include <cstdint>

#include "kernels/common/element_type.h"

namespace engine::kernels {

/// Normalize as one multiplication and one addition: (x / 255 - mean) / std = x * scale + shift, both rounded to float
/// once, as data/transforms computes it.
struct PixelScale {
  float scale[3] = {1, 1, 1};
  float shift[3] = {0, 0, 0};
};

/// mean, std (above 0): [channels], of pixels in [0, 1]; channels 1 to 3.
PixelScale pixel_scale(const float* mean, const float* std, int channels);

struct InputSpec {
  int64_t n = 0, h = 0, w = 0;
  int c = 3;         // 1 or 3
  int c_padded = 3;  // c, 4 or 8
  PixelScale pixel = {};
};

/// Channels that pictures get on an accelerator: in FP16 zeros make 4 of 3, as cuDNN's tensor-core kernels for a 7x7
/// stem need 103 MB of workspace with 3 for 256 pictures, and none with 4. Other types would need 8, which costs more
/// than it saves.
constexpr int64_t padded_channels(int64_t channels, ElementType type) {
  return channels == 3 && type == ElementType::f16 ? 4 : channels;
}

/// y[n, h, w, k] = pictures[n, h, w', k] * scale[k] + shift[k] for k < c, 0 for c <= k < c_padded; w' is w, or the
/// mirrored column where flips[n] is not 0.
/// pictures: [n, h, w, c] of bytes; flips: [n], or null for none; y: [n, h, w, c_padded], overwritten, float or double.
/// No aliasing. Throws std::invalid_argument for other channels.
template <typename T>
void input_cpu(const InputSpec& spec, const uint8_t* pictures, const uint8_t* flips, T* y);

/// Throws std::invalid_argument for channels, padded ones or extents that no implementation serves.
void check_input(const InputSpec& spec);

}  // namespace engine::kernels
