// Forward passes: one kernel applies an affine map per channel, with whatever follows it.

#include "kernels/batch_norm/batch_norm_cuda.h"
#include "kernels/batch_norm/batch_norm_pieces_cuda.h"
#include "kernels/batch_norm/batch_norm_statistics_cuda.h"
#include "kernels/batch_norm/channels_cuda.h"
#include "kernels/common/launch.h"

namespace engine::kernels {
namespace {

enum class Residual { none, plain, scaled };

template <typename T>
struct ApplyArgs {
  FlatRows flat;
  int64_t channels;
  bool relu;
  ChannelNorm norm, residual_norm;
  const T* x;
  const T* residual;
  T* y;
  uint32_t* mask;
};

// Whole bytes of mask are written, so the last word may lack some.
template <typename T>
__device__ void clear_mask_tail(const ApplyArgs<T>& args) {
  for (int64_t byte = args.flat.elements / 8; byte % 4 != 0; ++byte) reinterpret_cast<uint8_t*>(args.mask)[byte] = 0;
}

template <int kWidth>
struct Applied {
  Values<kWidth> y;
  unsigned passed;
};

template <bool kScaled, int kWidth>
__device__ Applied<kWidth> apply_values(const Values<kWidth>& x, const Values<kWidth>& residual,
                                        const ChannelAffine<kWidth>& norm, const ChannelAffine<kWidth>& residual_norm,
                                        bool relu) {
  Applied<kWidth> result{{}, 0};
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    float z = normalise_value(x.at[i], norm.mean.at[i], norm.scale.at[i], norm.beta.at[i]);
    if constexpr (kScaled) {
      z += normalise_value(residual.at[i], 0, residual_norm.scale.at[i], residual_norm.beta.at[i]);
    } else {
      z += residual.at[i];
    }
    result.passed |= z <= 0 ? 0U : 1U << i;
    result.y.at[i] = relu ? rectify_value(z) : z;
  }
  return result;
}

template <typename T, bool kPacked, Residual kResidual>
__global__ void __launch_bounds__(kChannelBlock, kBlocksPerProcessor) batch_norm_apply_kernel(ApplyArgs<T> args) {
  constexpr int kWidth = kChannelWidth<T, kPacked>, kUnroll = kResidual == Residual::none ? 3 : 2;
  const FlatPlace at = flat_place<kWidth>(args.flat);
  const auto norm = load_affine<kWidth>(args.norm, at.channel);
  ChannelAffine<kWidth> residual_norm{};
  if constexpr (kResidual == Residual::scaled) residual_norm = load_affine<kWidth>(args.residual_norm, at.channel);
  if (kPacked && args.mask != nullptr && blockIdx.x == 0 && threadIdx.x == 0) clear_mask_tail(args);
  int64_t first = at.last;
  for (int left = args.flat.steps; left > 0; left -= kUnroll, first -= kUnroll * args.flat.stride) {
    RawValues<T, kWidth> x[kUnroll], residual[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t own = first - u * args.flat.stride;
      if (!flat_inside(args.flat, own)) continue;
      x[u] = load_raw<kWidth>(args.x + own);
      if constexpr (kResidual != Residual::none) residual[u] = load_raw<kWidth>(args.residual + own);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t own = first - u * args.flat.stride;
      const bool inside = flat_inside(args.flat, own);
      const Applied<kWidth> applied = apply_values<kResidual == Residual::scaled>(
          as_values(x[u]), as_values(residual[u]), norm, residual_norm, args.relu);
      if (args.mask != nullptr) store_mask<kWidth>(args.mask, own, inside, applied.passed);
      if (inside) store_values(args.y + own, applied.y);
    }
  }
}

template <typename T>
void apply(ApplyArgs<T> args, int64_t rows, cudaStream_t stream) {
  if (!args.relu) args.mask = nullptr;
  const ChannelNorm &a = args.norm, &b = args.residual_norm;
  const bool packs = channels_pack(
      args.channels, {args.x, args.residual, args.y, a.mean, a.gamma, a.beta, a.invstd, a.var, b.gamma, b.beta});
  with_constant(packs, [&](auto packed) {
    args.flat = flat_rows(rows, args.channels, kChannelWidth<T, packed.value>);
    const int64_t tensors = args.residual != nullptr ? 3 : 2;
    const LaunchShape shape{.grid = blocks_for(args.flat.threads, kChannelBlock),
                            .block = kChannelBlock,
                            .bytes = tensor_bytes<T>(args.flat.elements, tensors, args.mask != nullptr)};
    if (args.residual == nullptr) {
      launch<batch_norm_apply_kernel<T, packed.value, Residual::none>>(shape, stream, args);
    } else if (b.gamma == nullptr) {
      launch<batch_norm_apply_kernel<T, packed.value, Residual::plain>>(shape, stream, args);
    } else {
      launch<batch_norm_apply_kernel<T, packed.value, Residual::scaled>>(shape, stream, args);
    }
  });
}

template <typename T>
void apply_norm(const BatchNormForwardCuda<T>& args, const ChannelNorm& norm, cudaStream_t stream) {
  apply<T>({.flat = {},
            .channels = args.channels,
            .relu = args.relu,
            .norm = norm,
            .residual_norm = {},
            .x = args.x,
            .residual = args.residual,
            .y = args.y,
            .mask = args.mask},
           args.rows, stream);
}

}  // namespace

template <typename T>
void batch_norm_forward_cuda(const BatchNormForwardCuda<T>& args, cudaStream_t stream) {
  const float* scale = batch_statistics_cuda<T>({.rows = args.rows,
                                                 .channels = args.channels,
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
  apply_norm(args, {.mean = args.saved_mean, .gamma = scale, .beta = args.beta}, stream);
}

template <typename T>
void batch_norm_inference_cuda(const BatchNormForwardCuda<T>& args, cudaStream_t stream) {
  apply_norm(args,
             {.mean = args.running_mean,
              .gamma = args.gamma,
              .beta = args.beta,
              .var = args.running_var,
              .eps = static_cast<float>(args.eps)},
             stream);
}

template <typename T>
void batch_norm_apply_cuda(const BatchNormApplyCuda<T>& args, cudaStream_t stream) {
  apply<T>({.flat = {},
            .channels = args.channels,
            .relu = args.relu,
            .norm = {.gamma = args.scale, .beta = args.bias},
            .residual_norm = {.gamma = args.residual_scale, .beta = args.residual_bias},
            .x = args.x,
            .residual = args.residual,
            .y = args.y,
            .mask = args.mask},
           args.rows, stream);
}

template void batch_norm_forward_cuda(const BatchNormForwardCuda<float>&, cudaStream_t);
template void batch_norm_forward_cuda(const BatchNormForwardCuda<Half>&, cudaStream_t);
template void batch_norm_forward_cuda(const BatchNormForwardCuda<BFloat16>&, cudaStream_t);
template void batch_norm_inference_cuda(const BatchNormForwardCuda<float>&, cudaStream_t);
template void batch_norm_inference_cuda(const BatchNormForwardCuda<Half>&, cudaStream_t);
template void batch_norm_inference_cuda(const BatchNormForwardCuda<BFloat16>&, cudaStream_t);
template void batch_norm_apply_cuda(const BatchNormApplyCuda<float>&, cudaStream_t);
template void batch_norm_apply_cuda(const BatchNormApplyCuda<Half>&, cudaStream_t);
template void batch_norm_apply_cuda(const BatchNormApplyCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
