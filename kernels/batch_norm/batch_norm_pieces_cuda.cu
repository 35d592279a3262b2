#include "kernels/batch_norm/batch_norm_pieces_cuda.h"

#include "kernels/batch_norm/channel_sums_cuda.h"
#include "kernels/batch_norm/channels_cuda.h"
#include "kernels/common/launch.h"

namespace engine::kernels {
namespace {

__device__ int64_t own_channel() { return static_cast<int64_t>(blockIdx.x) * kChannelBlock + threadIdx.x; }

LaunchShape one_thread_each(int64_t channels, int64_t bytes_each) {
  return {.grid = blocks_for(channels, kChannelBlock), .block = kChannelBlock, .bytes = channels * bytes_each};
}

/// A vector's bytes a channel; 0 for null.
template <typename V>
int64_t vector_bytes(const V* p) {
  return p != nullptr ? sizeof(V) : 0;
}

/// Of what both finalize functions write and of gamma and beta.
template <typename T>
int64_t affine_bytes(const BatchNormFinalizeCuda<T>& args) {
  return vector_bytes(args.gamma) + vector_bytes(args.beta) + vector_bytes(args.saved_mean) +
         vector_bytes(args.saved_invstd) + vector_bytes(args.scale) + vector_bytes(args.bias) +
         vector_bytes(args.stored_scale) + vector_bytes(args.stored_bias);
}

template <typename T>
__device__ void store_affine(const BatchNormFinalizeCuda<T>& args, int64_t channel, float mean, float invstd) {
  const float scale = args.gamma[channel] * invstd, bias = fmaf(-mean, scale, args.beta[channel]);
  if (args.scale != nullptr) args.scale[channel] = scale;
  if (args.bias != nullptr) args.bias[channel] = bias;
  if (args.stored_scale != nullptr) args.stored_scale[channel] = from_float<T>(scale);
  if (args.stored_bias != nullptr) args.stored_bias[channel] = from_float<T>(bias);
}

template <typename T>
__global__ void __launch_bounds__(kChannelBlock) batch_norm_finalize_kernel(BatchNormFinalizeCuda<T> args) {
  const int64_t channel = own_channel();
  if (channel >= args.channels) return;
  const double n = static_cast<double>(args.count), mean = args.sum[channel] / n;
  const double difference = args.sum_squares[channel] / n - mean * mean, var = difference < 0 ? 0 : difference;
  const auto invstd = static_cast<float>(1 / sqrt(var + args.eps));
  if (args.saved_mean != nullptr) args.saved_mean[channel] = static_cast<float>(mean);
  if (args.saved_invstd != nullptr) args.saved_invstd[channel] = invstd;
  store_affine(args, channel, static_cast<float>(mean), invstd);
  const double kept = 1 - args.momentum;
  if (args.running_mean != nullptr) {
    args.running_mean[channel] = static_cast<float>(kept * args.running_mean[channel] + args.momentum * mean);
  }
  if (args.running_var != nullptr) {
    const double unbiased = var * n / (n - 1);
    args.running_var[channel] = static_cast<float>(kept * args.running_var[channel] + args.momentum * unbiased);
  }
}

template <typename T>
__global__ void __launch_bounds__(kChannelBlock) batch_norm_inference_finalize_kernel(BatchNormFinalizeCuda<T> args) {
  const int64_t channel = own_channel();
  if (channel >= args.channels) return;
  const float mean = args.running_mean[channel];
  const float invstd = inverse_std(args.running_var[channel], static_cast<float>(args.eps));
  if (args.saved_mean != nullptr) args.saved_mean[channel] = mean;
  if (args.saved_invstd != nullptr) args.saved_invstd[channel] = invstd;
  store_affine(args, channel, mean, invstd);
}

__global__ void __launch_bounds__(kChannelBlock)
    batch_norm_backward_finish_kernel(FinishGradient finish, const float* sum, const float* dot, int64_t channels) {
  const int64_t channel = own_channel();
  if (channel < channels) finish(channel, sum[channel], dot[channel]);
}

}  // namespace

template <typename T>
void batch_norm_finalize_cuda(const BatchNormFinalizeCuda<T>& args, cudaStream_t stream) {
  const int64_t running = 2 * (vector_bytes(args.running_mean) + vector_bytes(args.running_var));
  const int64_t bytes = affine_bytes(args) + running + vector_bytes(args.sum) + vector_bytes(args.sum_squares);
  launch<batch_norm_finalize_kernel<T>>(one_thread_each(args.channels, bytes), stream, args);
}

template <typename T>
void batch_norm_inference_finalize_cuda(const BatchNormFinalizeCuda<T>& args, cudaStream_t stream) {
  const int64_t bytes = affine_bytes(args) + vector_bytes(args.running_mean) + vector_bytes(args.running_var);
  launch<batch_norm_inference_finalize_kernel<T>>(one_thread_each(args.channels, bytes), stream, args);
}

void batch_norm_backward_finish_cuda(const BatchNormBackwardFinishCuda& args, cudaStream_t stream) {
  const FinishGradient finish{.count = args.count,
                              .gamma = args.gamma,
                              .invstd = args.invstd,
                              .grad_gamma = args.grad_gamma,
                              .grad_beta = args.grad_beta,
                              .g_scale = args.g_scale,
                              .x_scale = args.x_scale,
                              .offset = args.offset};
  const int64_t bytes = finish.channel_bytes() + 2 * static_cast<int64_t>(sizeof(float));
  launch<batch_norm_backward_finish_kernel>(one_thread_each(args.channels, bytes), stream, finish, args.sum, args.dot,
                                            args.channels);
}

template void batch_norm_finalize_cuda(const BatchNormFinalizeCuda<float>&, cudaStream_t);
template void batch_norm_finalize_cuda(const BatchNormFinalizeCuda<Half>&, cudaStream_t);
template void batch_norm_finalize_cuda(const BatchNormFinalizeCuda<BFloat16>&, cudaStream_t);
template void batch_norm_inference_finalize_cuda(const BatchNormFinalizeCuda<float>&, cudaStream_t);
template void batch_norm_inference_finalize_cuda(const BatchNormFinalizeCuda<Half>&, cudaStream_t);
template void batch_norm_inference_finalize_cuda(const BatchNormFinalizeCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
