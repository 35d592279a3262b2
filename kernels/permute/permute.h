#pragma once
// Moves channels from the last place to the one before the spatial extents and back: [outer, spatial, channels] <->
// [outer, channels, spatial]. So filters go KRSC <-> KCRS (outer = k, spatial = r * s) and the columns of a Linear
// after a flatten go (h, w, c) <-> (c, h, w) (outer = out, spatial = h * w); PyTorch's files have channels first.
// Elements are copied bit for bit. float, double, Half, BFloat16; threaded. y is overwritten; no aliasing.

#include <cstdint>

#include "kernels/common/half.h"

namespace engine::kernels {

/// x: [outer, spatial, channels]; y: [outer, channels, spatial].
template <typename T>
void permute_channels_first_cpu(const T* x, T* y, int64_t outer, int64_t spatial, int64_t channels);

/// x: [outer, channels, spatial]; y: [outer, spatial, channels].
template <typename T>
void permute_channels_last_cpu(const T* x, T* y, int64_t outer, int64_t spatial, int64_t channels);

}  // namespace engine::kernels
