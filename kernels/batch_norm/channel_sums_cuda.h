#pragma once
// The second stage of sums over rows: blocks have left two numbers per channel each, partial[split][2][channels]
// (store_tile_sums); a kernel adds them up in the order of the splits and hands the totals to `finish`.

#include <cstddef>
#include <cstdint>

#include "kernels/batch_norm/channels_cuda.h"
#include "kernels/common/launch.h"

namespace engine::kernels {

/// Workspace of both stages: partial sums, then kChannelVectors float vectors of coefficients.
struct ChannelSums {
  double* partial = nullptr;
  float* coefficients = nullptr;
};

inline constexpr int64_t kChannelVectors = 3;

inline ChannelSums channel_sums(std::byte* workspace, int64_t channels, unsigned splits) {
  auto* partial = reinterpret_cast<double*>(workspace);
  return {partial, reinterpret_cast<float*>(partial + static_cast<int64_t>(splits) * 2 * channels)};
}

/// Of the sums that blocks leave.
inline int64_t partial_sums_bytes(int64_t channels, int64_t splits) {
  return channels * splits * 2 * static_cast<int64_t>(sizeof(double));
}

inline int64_t channel_sums_bytes(int64_t channels, int64_t splits) {
  const int64_t bytes =
      partial_sums_bytes(channels, splits) + channels * kChannelVectors * static_cast<int64_t>(sizeof(float));
  return (bytes + 255) / 256 * 256;
}

/// Where a block puts its sums of one kind, 0 or 1.
__device__ inline double* partial_sums(double* partial, int64_t channels, int kind) {
  return partial + (static_cast<int64_t>(blockIdx.y) * 2 + kind) * channels;
}

/// Channels of a block: whole sectors of 32 bytes of the vectors that `finish` reads and writes.
inline constexpr int kFinishChannels = 8;

template <typename Finish>
__global__ void __launch_bounds__(kChannelBlock)
    batch_norm_finish_kernel(const double* partial, unsigned splits, int64_t channels, Finish finish) {
  constexpr int kWarps = kChannelBlock / kWarp;
  ENGINE_SHARED(double, cells, 2 * kWarps * kFinishChannels);
  const int thread = static_cast<int>(threadIdx.x), own = thread % kFinishChannels, warp = thread / kWarp;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kFinishChannels + own;
  double totals[2] = {0, 0};
  if (channel < channels) {
#pragma unroll 4
    for (unsigned split = thread / kFinishChannels; split < splits; split += kChannelBlock / kFinishChannels) {
      const double* from = partial + static_cast<int64_t>(split) * 2 * channels + channel;
      totals[0] += from[0];
      totals[1] += from[channels];
    }
  }
#pragma unroll
  for (int kind = 0; kind < 2; ++kind) {
#pragma unroll
    for (int offset = kFinishChannels; offset < kWarp; offset *= 2) {
      totals[kind] += __shfl_xor_sync(kAllLanes, totals[kind], offset);
    }
    if (thread % kWarp < kFinishChannels) cells[(kind * kWarps + warp) * kFinishChannels + own] = totals[kind];
  }
  __syncthreads();
  if (thread >= kFinishChannels || channel >= channels) return;
  totals[0] = totals[1] = 0;
  for (int from = 0; from < kWarps; ++from) {
    totals[0] += cells[from * kFinishChannels + own];
    totals[1] += cells[(kWarps + from) * kFinishChannels + own];
  }
  finish(channel, totals[0], totals[1]);
}

/// Finish has channel_bytes(), what it moves for a channel.
template <typename Finish>
void finish_channel_sums(const double* partial, unsigned splits, int64_t channels, const Finish& finish,
                         cudaStream_t stream) {
  launch<batch_norm_finish_kernel<Finish>>(
      {.grid = blocks_for(channels, kFinishChannels),
       .block = kChannelBlock,
       .bytes = partial_sums_bytes(channels, splits) + channels * finish.channel_bytes()},
      stream, partial, splits, channels, finish);
}

/// Writes what the gradient of a batch leaves per channel, from sum(g) and dot = sum(g * (x - mean)); the coefficients
/// of grad_x = g * g_scale + (x - mean) * x_scale + offset unless null. g_scale is gamma * invstd, to the last bit.
struct FinishGradient {
  int64_t count = 0;
  const float* gamma = nullptr;
  const float* invstd = nullptr;
  const float* var = nullptr;  // read where invstd is null
  float eps = 0;
  float* grad_gamma = nullptr;
  float* grad_beta = nullptr;
  float* g_scale = nullptr;
  float* x_scale = nullptr;
  float* offset = nullptr;

  int64_t channel_bytes() const {
    const int64_t vectors = g_scale != nullptr ? 7 : 3;
    return vectors * static_cast<int64_t>(sizeof(float));
  }
  __device__ void operator()(int64_t channel, double sum, double dot) const {
    const double spread = invstd != nullptr ? invstd[channel] : inverse_std(var[channel], eps);
    grad_beta[channel] = static_cast<float>(sum);
    grad_gamma[channel] = static_cast<float>(dot * spread);
    if (g_scale == nullptr) return;
    const double gain = gamma[channel] * spread, n = static_cast<double>(count);
    g_scale[channel] = static_cast<float>(gain);
    x_scale[channel] = static_cast<float>(-gain * spread * spread * dot / n);
    offset[channel] = static_cast<float>(-gain * sum / n);
  }
};

}  // namespace engine::kernels
