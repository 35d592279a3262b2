#include "kernels/batch_norm/batch_norm_cuda.h"
#include "kernels/batch_norm/batch_norm_pieces_cuda.h"
#include "kernels/batch_norm/channel_sums_cuda.h"
#include "kernels/batch_norm/channels_cuda.h"
#include "kernels/common/launch.h"

namespace engine::kernels {
namespace {

enum class ReluMask { none, bits, recomputed };

template <typename T>
struct BackwardArgs {
  ChannelTiles tiles;
  FlatRows flat;
  ChannelNorm norm;
  const T* x;
  const T* grad_y;
  const uint32_t* mask;
  T* grad_x;
  T* grad_residual;
  double* partial;
  const float* x_scale;
  const float* offset;
};

template <typename T, int kWidth>
struct Loaded {
  RawValues<T, kWidth> x{}, grad_y{};
  unsigned mask = 0;
  bool inside = false;
};

// Zeros outside.
template <ReluMask kMask, int kWidth, typename T>
__device__ Loaded<T, kWidth> load_gradient(const BackwardArgs<T>& args, int64_t first, bool inside) {
  Loaded<T, kWidth> result;
  result.inside = inside;
  if (!inside) return result;
  result.x = load_raw<kWidth>(args.x + first);
  result.grad_y = load_raw<kWidth>(args.grad_y + first);
  if constexpr (kMask == ReluMask::bits) result.mask = load_mask<kWidth>(args.mask, first);
  return result;
}

template <ReluMask kMask, typename T, int kWidth>
__device__ Values<kWidth> masked_gradient(const Loaded<T, kWidth>& loaded, const Values<kWidth>& x,
                                          const ChannelAffine<kWidth>& norm) {
  Values<kWidth> g = as_values(loaded.grad_y);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    bool stopped = false;
    if constexpr (kMask == ReluMask::bits) stopped = (loaded.mask >> i & 1) == 0;
    if constexpr (kMask == ReluMask::recomputed) {
      stopped = normalise_value(x.at[i], norm.mean.at[i], norm.scale.at[i], norm.beta.at[i]) <= 0;
    }
    if (stopped) g.at[i] = 0;
  }
  return g;
}

// kWrite: evaluation, whose gradients need no sums and are written in the same pass.
template <typename T, bool kPacked, ReluMask kMask, bool kWrite>
__global__ void __launch_bounds__(kChannelBlock, kBlocksPerProcessor)
    batch_norm_backward_sums_kernel(BackwardArgs<T> args) {
  constexpr int kWidth = kChannelWidth<T, kPacked>, kUnroll = kWrite ? 1 : 2;  // what the registers hold
  const ChannelTiles& tiles = args.tiles;
  const TilePlace at = tile_place<kWidth>(tiles);
  const auto norm = load_affine<kWidth>(args.norm, at.active ? at.channel : 0);
  const int64_t step = static_cast<int64_t>(tiles.splits) * tiles.lanes;
  Values<kWidth> sum = all_equal<kWidth>(0), dot = sum;
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * tiles.lanes + at.lane; at.active && row < tiles.rows;
       row += kUnroll * step) {
    Loaded<T, kWidth> loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t own = row + u * step;
      loaded[u] = load_gradient<kMask, kWidth>(args, own * tiles.channels + at.channel, own < tiles.rows);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const Values<kWidth> x = as_values(loaded[u].x);
      Values<kWidth> g = masked_gradient<kMask>(loaded[u], x, norm);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        sum.at[i] += g.at[i];
        dot.at[i] = fmaf(g.at[i], x.at[i] - norm.mean.at[i], dot.at[i]);
      }
      if (!kWrite || !loaded[u].inside) continue;
      const int64_t first = (row + u * step) * tiles.channels + at.channel;
      if (kMask != ReluMask::recomputed && args.grad_residual != nullptr) {
        store_values(args.grad_residual + first, g);
      }
      if (args.grad_x == nullptr) continue;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) g.at[i] *= norm.scale.at[i];
      store_values(args.grad_x + first, g);
    }
  }
  double totals[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) totals[i] = sum.at[i];
  store_tile_sums(tiles, totals, partial_sums(args.partial, tiles.channels, 0));
#pragma unroll
  for (int i = 0; i < kWidth; ++i) totals[i] = dot.at[i];
  store_tile_sums(tiles, totals, partial_sums(args.partial, tiles.channels, 1));
}

template <typename T, bool kPacked, ReluMask kMask>
__global__ void __launch_bounds__(kChannelBlock, kBlocksPerProcessor)
    batch_norm_backward_apply_kernel(BackwardArgs<T> args) {
  constexpr int kWidth = kChannelWidth<T, kPacked>, kUnroll = 2;
  const FlatPlace at = flat_place<kWidth>(args.flat);
  const auto norm = load_affine<kWidth>(args.norm, at.channel);
  const auto x_scale = load_values<kWidth>(args.x_scale + at.channel);
  const auto offset = load_values<kWidth>(args.offset + at.channel);
  int64_t first = at.last;
  for (int left = args.flat.steps; left > 0; left -= kUnroll, first -= kUnroll * args.flat.stride) {
    Loaded<T, kWidth> loaded[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t own = first - u * args.flat.stride;
      loaded[u] = load_gradient<kMask, kWidth>(args, own, flat_inside(args.flat, own));
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (!loaded[u].inside) continue;
      const int64_t own = first - u * args.flat.stride;
      const Values<kWidth> x = as_values(loaded[u].x);
      Values<kWidth> g = masked_gradient<kMask>(loaded[u], x, norm);
      if (kMask != ReluMask::recomputed && args.grad_residual != nullptr) store_values(args.grad_residual + own, g);
      if (args.grad_x == nullptr) continue;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float rest = fmaf(x.at[i] - norm.mean.at[i], x_scale.at[i], offset.at[i]);
        g.at[i] = fmaf(g.at[i], norm.scale.at[i], rest);
      }
      store_values(args.grad_x + own, g);
    }
  }
}

// f(constant) with the way in which the mask is had.
template <typename T, typename F>
void with_mask(const BatchNormBackwardCuda<T>& args, F&& f) {
  if (!args.relu) {
    f(std::integral_constant<ReluMask, ReluMask::none>{});
  } else if (args.mask != nullptr) {
    f(std::integral_constant<ReluMask, ReluMask::bits>{});
  } else {
    f(std::integral_constant<ReluMask, ReluMask::recomputed>{});
  }
}

template <typename T>
bool tensors_pack(const BatchNormBackwardCuda<T>& args) {
  return channels_pack(args.channels, {args.x, args.grad_y, args.grad_x, args.grad_residual, args.gamma, args.beta,
                                       args.mean, args.invstd, args.running_var});
}

// With the affine map as far as the sums need it, which is all of it for a mask that is computed again.
template <typename T, int kWidth>
BackwardArgs<T> backward_args(const BatchNormBackwardCuda<T>& args, bool whole_norm) {
  const ChannelTiles tiles = channel_tiles(args.rows, args.channels, kWidth);
  const ChannelSums sums = channel_sums(args.workspace, args.channels, tiles.splits);
  const bool recomputed = args.relu && args.mask == nullptr;
  whole_norm = whole_norm || recomputed;
  return {.tiles = tiles,
          .flat = flat_rows(args.rows, args.channels, kWidth),
          .norm = {.mean = args.mean,
                   .gamma = whole_norm ? args.gamma : nullptr,
                   .beta = recomputed ? args.beta : nullptr,
                   .invstd = args.invstd,
                   .var = args.running_var,
                   .eps = static_cast<float>(args.eps)},
          .x = args.x,
          .grad_y = args.grad_y,
          .mask = args.mask,
          .grad_x = args.grad_x,
          .grad_residual = args.grad_residual,
          .partial = sums.partial,
          .x_scale = sums.coefficients + args.channels,
          .offset = sums.coefficients + 2 * args.channels};
}

// Of the passes over tensors: both read x and its gradient, and the one that writes also writes.
template <typename T>
LaunchShape sums_shape(const BackwardArgs<T>& args, bool bits, bool writes) {
  const ChannelTiles& tiles = args.tiles;
  const int64_t results = writes ? (args.grad_x != nullptr) + (args.grad_residual != nullptr) : 0;
  return {.grid = dim3(tiles.tiles, tiles.splits),
          .block = kChannelBlock,
          .bytes = tensor_bytes<T>(args.flat.elements, 2 + results, bits) +
                   partial_sums_bytes(tiles.channels, tiles.splits)};
}

template <typename T>
LaunchShape apply_shape(const BackwardArgs<T>& args, bool bits) {
  const int64_t results = (args.grad_x != nullptr) + (args.grad_residual != nullptr);
  return {.grid = blocks_for(args.flat.threads, kChannelBlock),
          .block = kChannelBlock,
          .bytes = tensor_bytes<T>(args.flat.elements, 2 + results, bits)};
}

template <typename T>
FinishGradient finish_gradient(const BatchNormBackwardCuda<T>& args) {
  return {.count = args.rows,
          .gamma = args.gamma,
          .invstd = args.invstd,
          .var = args.running_var,
          .eps = static_cast<float>(args.eps),
          .grad_gamma = args.grad_gamma,
          .grad_beta = args.grad_beta};
}

}  // namespace

template <typename T>
void batch_norm_backward_cuda(const BatchNormBackwardCuda<T>& args, cudaStream_t stream) {
  with_constant(tensors_pack(args), [&](auto packed) {
    const auto sums = backward_args<T, kChannelWidth<T, packed.value>>(args, false);
    const ChannelTiles& tiles = sums.tiles;
    float* coefficients = channel_sums(args.workspace, args.channels, tiles.splits).coefficients;
    FinishGradient finish = finish_gradient(args);
    finish.g_scale = coefficients;
    finish.x_scale = coefficients + args.channels;
    finish.offset = coefficients + 2 * args.channels;
    BackwardArgs<T> apply = sums;
    apply.norm.gamma = coefficients;
    apply.norm.invstd = apply.norm.var = nullptr;
    with_mask(args, [&](auto mask) {
      constexpr bool kBits = mask.value == ReluMask::bits;
      launch<batch_norm_backward_sums_kernel<T, packed.value, mask.value, false>>(sums_shape(sums, kBits, false),
                                                                                  stream, sums);
      finish_channel_sums(sums.partial, tiles.splits, args.channels, finish, stream);
      if (args.grad_x == nullptr && args.grad_residual == nullptr) return;
      launch<batch_norm_backward_apply_kernel<T, packed.value, mask.value>>(apply_shape(apply, kBits), stream, apply);
    });
  });
}

template <typename T>
void batch_norm_inference_backward_cuda(const BatchNormBackwardCuda<T>& args, cudaStream_t stream) {
  with_constant(tensors_pack(args), [&](auto packed) {
    const auto device = backward_args<T, kChannelWidth<T, packed.value>>(args, args.grad_x != nullptr);
    const ChannelTiles& tiles = device.tiles;
    with_mask(args, [&](auto mask) {
      launch<batch_norm_backward_sums_kernel<T, packed.value, mask.value, true>>(
          sums_shape(device, mask.value == ReluMask::bits, true), stream, device);
    });
    finish_channel_sums(device.partial, tiles.splits, args.channels, finish_gradient(args), stream);
  });
}

template <typename T>
void batch_norm_backward_apply_cuda(const BatchNormBackwardApplyCuda<T>& args, cudaStream_t stream) {
  const bool packs =
      channels_pack(args.channels, {args.g, args.x, args.grad_x, args.mean, args.g_scale, args.x_scale, args.offset});
  with_constant(packs, [&](auto packed) {
    const BackwardArgs<T> device{.tiles = {},
                                 .flat = flat_rows(args.rows, args.channels, kChannelWidth<T, packed.value>),
                                 .norm = {.mean = args.mean, .gamma = args.g_scale},
                                 .x = args.x,
                                 .grad_y = args.g,
                                 .mask = nullptr,
                                 .grad_x = args.grad_x,
                                 .grad_residual = nullptr,
                                 .partial = nullptr,
                                 .x_scale = args.x_scale,
                                 .offset = args.offset};
    launch<batch_norm_backward_apply_kernel<T, packed.value, ReluMask::none>>(apply_shape(device, false), stream,
                                                                              device);
  });
}

template void batch_norm_backward_cuda(const BatchNormBackwardCuda<float>&, cudaStream_t);
template void batch_norm_backward_cuda(const BatchNormBackwardCuda<Half>&, cudaStream_t);
template void batch_norm_backward_cuda(const BatchNormBackwardCuda<BFloat16>&, cudaStream_t);
template void batch_norm_inference_backward_cuda(const BatchNormBackwardCuda<float>&, cudaStream_t);
template void batch_norm_inference_backward_cuda(const BatchNormBackwardCuda<Half>&, cudaStream_t);
template void batch_norm_inference_backward_cuda(const BatchNormBackwardCuda<BFloat16>&, cudaStream_t);
template void batch_norm_backward_apply_cuda(const BatchNormBackwardApplyCuda<float>&, cudaStream_t);
template void batch_norm_backward_apply_cuda(const BatchNormBackwardApplyCuda<Half>&, cudaStream_t);
template void batch_norm_backward_apply_cuda(const BatchNormBackwardApplyCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
