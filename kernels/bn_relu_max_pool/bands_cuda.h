#pragma once
// How the kernels of a ResNet's stem share images out: a block takes bands of neighbouring lines of an image, a tile of
// channels wide (batch_norm/channels_cuda.h), so that what overlapping windows ask for again lies in the L1 cache.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/batch_norm/channels_cuda.h"
#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

/// Bands over images of h x w pixels: those of x or of y, or pixels of x in twos by two. Grid: (tiles.tiles,
/// tiles.splits).
struct PoolBands {
  ChannelTiles tiles;
  int64_t bands = 0;
  int lines = 0;            // of a band
  int bands_per_image = 0;  // the last one of an image may have fewer lines
  int h = 0, w = 0;
};

inline PoolBands pool_bands(int64_t n, int64_t h, int64_t w, int64_t channels, int width,
                            int blocks_per_processor = kBlocksPerProcessor) {
  const int64_t most = most_splits(channels, width, blocks_per_processor);
  int64_t lines = 8;
  while (lines > 1 && n * ((h + lines - 1) / lines) < most) lines /= 2;
  const int64_t per_image = (h + lines - 1) / lines, bands = n * per_image;
  ChannelTiles tiles = channel_tiles(n * h * w, channels, width);
  tiles.splits = static_cast<unsigned>(std::clamp<int64_t>(most, 1, std::max<int64_t>(bands, 1)));
  return {.tiles = tiles,
          .bands = bands,
          .lines = static_cast<int>(lines),
          .bands_per_image = static_cast<int>(per_image),
          .h = static_cast<int>(h),
          .w = static_cast<int>(w)};
}

struct Pixel {
  int64_t image;
  int h, w;
};

/// Calls f(Pixel) for the pixels of a lane of the block, from the last band to the first.
template <typename F>
__device__ inline void for_each_pixel(const PoolBands& bands, int lane, F&& f) {
  for (int64_t left = blockIdx.y; left < bands.bands; left += bands.tiles.splits) {
    const int64_t band = bands.bands - 1 - left, image = band / bands.bands_per_image;
    const int first = static_cast<int>(band - image * bands.bands_per_image) * bands.lines;
    const int pixels = (bands.lines < bands.h - first ? bands.lines : bands.h - first) * bands.w;
    for (int pixel = lane; pixel < pixels; pixel += bands.tiles.lanes) {
      const int line = pixel / bands.w;
      f(Pixel{image, first + line, pixel - line * bands.w});
    }
  }
}

/// A pool's extents in 32 bits, which hold for one image.
struct PoolWindows {
  int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

inline PoolWindows pool_windows(const Pool2dShape& s) {
  const auto narrow = [](int64_t extent) { return static_cast<int>(extent); };
  return {narrow(s.h),        narrow(s.w),        narrow(s.out_h()),  narrow(s.out_w()), narrow(s.kernel_h),
          narrow(s.kernel_w), narrow(s.stride_h), narrow(s.stride_w), narrow(s.pad_h),   narrow(s.pad_w)};
}

/// Bytes of so many tensors like x, and of y or its gradient with the index.
template <typename T>
int64_t pool_bytes(const Pool2dShape& s, int64_t like_x) {
  const int64_t in = s.n * s.h * s.w * s.c, out = s.n * s.out_h() * s.out_w() * s.c;
  return in * like_x * static_cast<int64_t>(sizeof(T)) + out * (static_cast<int64_t>(sizeof(T)) + 1);
}

/// ResNet's stem: 3x3, stride 2, padding 1.
inline bool is_stem(const Pool2dShape& s) {
  return s.kernel_h == 3 && s.kernel_w == 3 && s.stride_h == 2 && s.stride_w == 2 && s.pad_h == 1 && s.pad_w == 1;
}

/// kWidth places of index as one number, the first in its lowest byte.
template <int kWidth>
using IndexPack = std::conditional_t<kWidth == 8, uint64_t, std::conditional_t<kWidth == 4, uint32_t, uint8_t>>;

inline bool index_packs(const uint8_t* index) { return reinterpret_cast<uintptr_t>(index) % 8 == 0; }

}  // namespace engine::kernels
