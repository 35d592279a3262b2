#include "kernels/batch_norm/batch_norm_cuda.h"
#include "kernels/batch_norm/batch_norm_statistics_cuda.h"
#include "kernels/batch_norm/channel_sums_cuda.h"
#include "kernels/bn_relu_max_pool/bands_cuda.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool_cuda.h"
#include "kernels/common/launch.h"

namespace engine::kernels {
namespace {

template <typename T>
struct PoolArgs {
  PoolBands bands;
  PoolWindows windows;
  ChannelNorm norm;
  const T* x;
  T* y;
  uint8_t* index;
};

template <int kWidth>
struct Winners {
  Values<kWidth> best = all_equal<kWidth>(0);
  unsigned place[kWidth];
};

// The later one of equals loses, and NaN wins: the reference's order.
template <int kWidth>
__device__ void compare(Winners<kWidth>& winners, const Values<kWidth>& x, const ChannelAffine<kWidth>& norm,
                        unsigned place) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float z = normalise_value(x.at[i], norm.mean.at[i], norm.scale.at[i], norm.beta.at[i]);
    const bool wins = z > winners.best.at[i] || z != z;
    winners.best.at[i] = wins ? z : winners.best.at[i];
    winners.place[i] = wins ? place : winners.place[i];
  }
}

// kKernel: the window's height and width where the compiler is to know it, else 0.
template <int kKernel, int kWidth, typename T>
__device__ Winners<kWidth> pool_window(const PoolArgs<T>& args, const ChannelAffine<kWidth>& norm, const Pixel& out,
                                       int64_t channel) {
  constexpr int kUnroll = kKernel == 0 ? 1 : kKernel;
  const PoolWindows& s = args.windows;
  const int kernel_h = kKernel == 0 ? s.kernel_h : kKernel, kernel_w = kKernel == 0 ? s.kernel_w : kKernel;
  const int64_t channels = args.bands.tiles.channels;
  const int h0 = out.h * s.stride_h - s.pad_h, w0 = out.w * s.stride_w - s.pad_w;
  Winners<kWidth> winners;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) winners.place[i] = kNoWinner;
#pragma unroll
  for (int dh = 0; dh < kernel_h; ++dh) {
    const int h = h0 + dh;
    if (h < 0 || h >= s.in_h) continue;
    const T* line = args.x + (out.image * s.in_h + h) * s.in_w * channels + channel;
#pragma unroll
    for (int dw = 0; dw < kernel_w; dw += kUnroll) {
      RawValues<T, kWidth> raw[kUnroll];
      bool inside[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int w = w0 + dw + u;
        inside[u] = w >= 0 && w < s.in_w;
        if (inside[u]) raw[u] = load_raw<kWidth>(line + w * channels);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (inside[u]) compare(winners, as_values(raw[u]), norm, static_cast<unsigned>(dh * kernel_w + dw + u));
      }
    }
  }
  return winners;
}

// kStem: packs of channels, 3x3 windows.
template <typename T, bool kStem>
__global__ void __launch_bounds__(kChannelBlock, kBlocksPerProcessor)
    bn_relu_max_pool_forward_kernel(PoolArgs<T> args) {
  constexpr int kWidth = kChannelWidth<T, kStem>;
  using Index = IndexPack<kWidth>;
  const TilePlace at = tile_place<kWidth>(args.bands.tiles);
  if (!at.active) return;
  const auto norm = load_affine<kWidth>(args.norm, at.channel);
  for_each_pixel(args.bands, at.lane, [&](const Pixel& out) {
    const Winners<kWidth> winners = pool_window < kStem ? 3 : 0 > (args, norm, out, at.channel);
    const int64_t pixel = (out.image * args.windows.out_h + out.h) * args.windows.out_w + out.w;
    const int64_t first = pixel * args.bands.tiles.channels + at.channel;
    store_values(args.y + first, winners.best);
    Index index = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      index = static_cast<Index>(index | static_cast<Index>(winners.place[i]) << (8 * i));
    *reinterpret_cast<Index*>(args.index + first) = index;
  });
}

}  // namespace

int64_t bn_relu_max_pool_cuda_workspace_bytes(const Pool2dShape& shape) {
  int64_t bytes = batch_norm_cuda_workspace_bytes(shape.n * shape.h * shape.w, shape.c);
  for (const int width : {1, 4, 8}) {
    if (shape.c % width != 0) continue;
    const int64_t bands = std::max<int64_t>(1, shape.n * shape.h);
    bytes = std::max(bytes, channel_sums_bytes(shape.c, std::min(bands, most_splits(shape.c, width))));
  }
  return bytes;
}

template <typename T>
void bn_relu_max_pool_forward_cuda(const BnReluMaxPoolForwardCuda<T>& args, cudaStream_t stream) {
  const Pool2dShape& s = args.shape;
  const float* scale = batch_statistics_cuda<T>({.rows = s.n * s.h * s.w,
                                                 .channels = s.c,
                                                 .eps = args.eps,
                                                 .momentum = args.momentum,
                                                 .x = args.x,
                                                 .gamma = args.gamma,
                                                 .running_mean = args.running_mean,
                                                 .running_var = args.running_var,
                                                 .saved_mean = args.saved_mean,
                                                 .saved_invstd = args.saved_invstd,
                                                 .workspace = args.workspace},
                                                stream);
  const bool packs =
      is_stem(s) && index_packs(args.index) && channels_pack(s.c, {args.x, args.y, args.saved_mean, scale, args.beta});
  with_constant(packs, [&](auto stem) {
    const PoolBands bands = pool_bands(s.n, s.out_h(), s.out_w(), s.c, kChannelWidth<T, stem.value>);
    const PoolArgs<T> device{.bands = bands,
                             .windows = pool_windows(s),
                             .norm = {.mean = args.saved_mean, .gamma = scale, .beta = args.beta},
                             .x = args.x,
                             .y = args.y,
                             .index = args.index};
    launch<bn_relu_max_pool_forward_kernel<T, stem.value>>(
        {.grid = dim3(bands.tiles.tiles, bands.tiles.splits), .block = kChannelBlock, .bytes = pool_bytes<T>(s, 1)},
        stream, device);
  });
}

template void bn_relu_max_pool_forward_cuda(const BnReluMaxPoolForwardCuda<float>&, cudaStream_t);
template void bn_relu_max_pool_forward_cuda(const BnReluMaxPoolForwardCuda<Half>&, cudaStream_t);
template void bn_relu_max_pool_forward_cuda(const BnReluMaxPoolForwardCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
