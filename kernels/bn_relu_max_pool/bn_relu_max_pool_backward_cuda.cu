#include "kernels/batch_norm/channel_sums_cuda.h"
#include "kernels/bn_relu_max_pool/bands_cuda.h"
#include "kernels/bn_relu_max_pool/bn_relu_max_pool_cuda.h"
#include "kernels/common/launch.h"

namespace engine::kernels {
namespace {

// Blocks per multiprocessor: many registers a thread, for many loads in flight.
constexpr int kResident = 2;

template <typename T>
struct GradientArgs {
  PoolBands bands;
  PoolWindows windows;
  ChannelNorm norm;
  const T* x;
  const T* grad_y;
  const uint8_t* index;
  T* grad_x;
  double* partial;
  const float* x_scale;
  const float* offset;
};

// One output element of each channel: its gradient, and the places that it chose.
template <typename T, int kWidth>
struct Chosen {
  RawValues<T, kWidth> grad_y;
  IndexPack<kWidth> places;
};

template <int kWidth, typename T>
__device__ Chosen<T, kWidth> load_chosen(const GradientArgs<T>& args, int64_t out) {
  return {load_raw<kWidth>(args.grad_y + out), *reinterpret_cast<const IndexPack<kWidth>*>(args.index + out)};
}

template <typename T, int kWidth>
__device__ void add_chosen(Values<kWidth>& g, const Chosen<T, kWidth>& chosen, int place) {
  const Values<kWidth> values = as_values(chosen.grad_y);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (static_cast<int>(chosen.places >> (8 * i) & 255) == place) g.at[i] += values.at[i];
  }
}

// Calls f(element, x there, gradient there) for the channels of a pixel of x, or of a square of four.
template <typename T, bool kStem>
struct Gather;

// Any windows: those over a pixel, as many on each axis as strides fit into the kernel, or one fewer.
template <typename T>
struct Gather<T, false> {
  static constexpr int kSide = 1;

  template <typename F>
  static __device__ void run(const GradientArgs<T>& args, const Pixel& in, int64_t channel, F&& f) {
    const PoolWindows& s = args.windows;
    const int64_t channels = args.bands.tiles.channels;
    const int last_h = (in.h + s.pad_h) / s.stride_h, last_w = (in.w + s.pad_w) / s.stride_w;
    Values<1> g = all_equal<1>(0);
    for (int oh = last_h; oh >= 0 && in.h + s.pad_h - oh * s.stride_h < s.kernel_h; --oh) {
      if (oh >= s.out_h) continue;
      for (int ow = last_w; ow >= 0 && in.w + s.pad_w - ow * s.stride_w < s.kernel_w; --ow) {
        if (ow >= s.out_w) continue;
        const int dh = in.h + s.pad_h - oh * s.stride_h, dw = in.w + s.pad_w - ow * s.stride_w;
        const int64_t out = ((in.image * s.out_h + oh) * s.out_w + ow) * channels + channel;
        add_chosen(g, load_chosen<1>(args, out), dh * s.kernel_w + dw);
      }
    }
    const int64_t first = ((in.image * s.in_h + in.h) * s.in_w + in.w) * channels + channel;
    f(first, load_raw<1>(args.x + first), g);
  }
};

// A stem's windows: pixels 2 h and 2 h + 1 lie under windows h and h + 1 alone, so a square of four pixels asks for
// four outputs, and each pixel of it looks at the same ones of them whichever square it is.
template <typename T>
struct Gather<T, true> {
  static constexpr int kSide = 2, kWidth = kPack<T>;

  template <typename F>
  static __device__ void run(const GradientArgs<T>& args, const Pixel& square, int64_t channel, F&& f) {
    const PoolWindows& s = args.windows;
    const int64_t channels = args.bands.tiles.channels;
    const int64_t out = ((square.image * s.out_h + square.h) * s.out_w + square.w) * channels + channel;
    const int64_t in = ((square.image * s.in_h + 2 * square.h) * s.in_w + 2 * square.w) * channels + channel;
    const bool below = 2 * square.h + 1 < s.in_h, beside = 2 * square.w + 1 < s.in_w;
    Chosen<T, kWidth> chosen[2][2];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = k / 2, j = k % 2;
      chosen[i][j].places = static_cast<IndexPack<kWidth>>(-1);
      if (square.h + i < s.out_h && square.w + j < s.out_w) {
        chosen[i][j] = load_chosen<kWidth>(args, out + (i * s.out_w + j) * channels);
      }
    }
#pragma unroll
    for (int i = 0; i < (below ? 2 : 1); ++i) {
      RawValues<T, kWidth> x[2];
      const int64_t line = in + i * s.in_w * channels;
      x[0] = load_raw<kWidth>(args.x + line);
      if (beside) x[1] = load_raw<kWidth>(args.x + line + channels);
#pragma unroll
      for (int j = 0; j < (beside ? 2 : 1); ++j) {
        Values<kWidth> g = all_equal<kWidth>(0);
        add_chosen(g, chosen[0][0], (i + 1) * 3 + j + 1);
        if (j == 1) add_chosen(g, chosen[0][1], (i + 1) * 3);
        if (i == 1) add_chosen(g, chosen[1][0], j + 1);
        if (i == 1 && j == 1) add_chosen(g, chosen[1][1], 0);
        f(line + j * channels, x[j], g);
      }
    }
  }
};

template <typename T, bool kStem>
__global__ void __launch_bounds__(kChannelBlock, kResident)
    bn_relu_max_pool_backward_sums_kernel(GradientArgs<T> args) {
  constexpr int kWidth = kChannelWidth<T, kStem>;
  const ChannelTiles& tiles = args.bands.tiles;
  const TilePlace at = tile_place<kWidth>(tiles);
  Values<kWidth> sum = all_equal<kWidth>(0), dot = sum;
  if (at.active) {
    const Values<kWidth> mean = load_values<kWidth>(args.norm.mean + at.channel);
    for_each_pixel(args.bands, at.lane, [&](const Pixel& in) {
      Gather<T, kStem>::run(args, in, at.channel, [&](int64_t, const auto& raw, const Values<kWidth>& g) {
        const Values<kWidth> x = as_values(raw);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          sum.at[i] += g.at[i];
          dot.at[i] = fmaf(g.at[i], x.at[i] - mean.at[i], dot.at[i]);
        }
      });
    });
  }
  double totals[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) totals[i] = sum.at[i];
  store_tile_sums(tiles, totals, partial_sums(args.partial, tiles.channels, 0));
#pragma unroll
  for (int i = 0; i < kWidth; ++i) totals[i] = dot.at[i];
  store_tile_sums(tiles, totals, partial_sums(args.partial, tiles.channels, 1));
}

template <typename T, bool kStem>
__global__ void __launch_bounds__(kChannelBlock, kResident)
    bn_relu_max_pool_backward_apply_kernel(GradientArgs<T> args) {
  constexpr int kWidth = kChannelWidth<T, kStem>;
  const TilePlace at = tile_place<kWidth>(args.bands.tiles);
  if (!at.active) return;
  const auto norm = load_affine<kWidth>(args.norm, at.channel);
  const auto x_scale = load_values<kWidth>(args.x_scale + at.channel);
  const auto offset = load_values<kWidth>(args.offset + at.channel);
  for_each_pixel(args.bands, at.lane, [&](const Pixel& in) {
    Gather<T, kStem>::run(args, in, at.channel, [&](int64_t first, const auto& raw, Values<kWidth> g) {
      const Values<kWidth> x = as_values(raw);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float rest = fmaf(x.at[i] - norm.mean.at[i], x_scale.at[i], offset.at[i]);
        g.at[i] = fmaf(g.at[i], norm.scale.at[i], rest);
      }
      store_values(args.grad_x + first, g);
    });
  });
}

template <typename T, bool kStem>
void backward(const BnReluMaxPoolBackwardCuda<T>& args, cudaStream_t stream) {
  const Pool2dShape& s = args.shape;
  constexpr int kSide = Gather<T, kStem>::kSide;
  const PoolBands bands =
      pool_bands(s.n, (s.h + kSide - 1) / kSide, (s.w + kSide - 1) / kSide, s.c, kChannelWidth<T, kStem>, kResident);
  const unsigned splits = bands.tiles.splits;
  const ChannelSums sums = channel_sums(args.workspace, s.c, splits);
  float *g_scale = sums.coefficients, *x_scale = g_scale + s.c, *offset = x_scale + s.c;
  const GradientArgs<T> device{.bands = bands,
                               .windows = pool_windows(s),
                               .norm = {.mean = args.mean, .gamma = g_scale},
                               .x = args.x,
                               .grad_y = args.grad_y,
                               .index = args.index,
                               .grad_x = args.grad_x,
                               .partial = sums.partial,
                               .x_scale = x_scale,
                               .offset = offset};
  LaunchShape shape{.grid = dim3(bands.tiles.tiles, splits),
                    .block = kChannelBlock,
                    .bytes = pool_bytes<T>(s, 1) + partial_sums_bytes(s.c, splits)};
  launch<bn_relu_max_pool_backward_sums_kernel<T, kStem>>(shape, stream, device);
  const FinishGradient finish{.count = s.n * s.h * s.w,
                              .gamma = args.gamma,
                              .invstd = args.invstd,
                              .grad_gamma = args.grad_gamma,
                              .grad_beta = args.grad_beta,
                              .g_scale = g_scale,
                              .x_scale = x_scale,
                              .offset = offset};
  finish_channel_sums(sums.partial, splits, s.c, finish, stream);
  if (args.grad_x == nullptr) return;
  shape.bytes = pool_bytes<T>(s, 2);
  launch<bn_relu_max_pool_backward_apply_kernel<T, kStem>>(shape, stream, device);
}

}  // namespace

template <typename T>
void bn_relu_max_pool_backward_cuda(const BnReluMaxPoolBackwardCuda<T>& args, cudaStream_t stream) {
  const bool packs = is_stem(args.shape) && index_packs(args.index) &&
                     channels_pack(args.shape.c, {args.x, args.grad_y, args.grad_x, args.mean});
  with_constant(packs, [&](auto stem) { backward<T, stem.value>(args, stream); });
}

template void bn_relu_max_pool_backward_cuda(const BnReluMaxPoolBackwardCuda<float>&, cudaStream_t);
template void bn_relu_max_pool_backward_cuda(const BnReluMaxPoolBackwardCuda<Half>&, cudaStream_t);
template void bn_relu_max_pool_backward_cuda(const BnReluMaxPoolBackwardCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
