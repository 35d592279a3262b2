#include "kernels/batch_norm/batch_norm_statistics_cuda.h"

#include "kernels/batch_norm/batch_norm_cuda.h"
#include "kernels/batch_norm/channel_sums_cuda.h"
#include "kernels/batch_norm/channels_cuda.h"
#include "kernels/common/launch.h"

namespace engine::kernels {
namespace {

// A thread's values as their number and the sums of their deviations from the first of them, which loses nothing to a
// large mean and little to an outlier.
template <int kWidth>
struct ThreadSums {
  Values<kWidth> first, sum, squares;
  int64_t count;
};

template <int kUnroll, int kWidth, typename T>
__device__ ThreadSums<kWidth> sum_rows(const T* x, const ChannelTiles& tiles, const TilePlace& at) {
  const int64_t step = static_cast<int64_t>(tiles.splits) * tiles.lanes;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * tiles.lanes + at.lane;
  ThreadSums<kWidth> sums{all_equal<kWidth>(0), all_equal<kWidth>(0), all_equal<kWidth>(0), 0};
  if (!at.active || begin >= tiles.rows) return sums;
  sums.count = (tiles.rows - begin + step - 1) / step;
  x += at.channel;
  const auto first = load_raw<kWidth>(x + begin * tiles.channels);
  sums.first = as_values(first);
  for (int64_t row = begin + step; row < tiles.rows; row += kUnroll * step) {
    RawValues<T, kWidth> raw[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t own = row + u * step;
      raw[u] = own < tiles.rows ? load_raw<kWidth>(x + own * tiles.channels) : first;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const Values<kWidth> values = as_values(raw[u]);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float deviation = values.at[i] - sums.first.at[i];
        sums.sum.at[i] += deviation;
        sums.squares.at[i] = fmaf(deviation, deviation, sums.squares.at[i]);
      }
    }
  }
  return sums;
}

template <typename T, bool kPacked>
__global__ void __launch_bounds__(kChannelBlock, kBlocksPerProcessor)
    batch_norm_statistics_kernel(const T* x, ChannelTiles tiles, double* partial) {
  constexpr int kWidth = kChannelWidth<T, kPacked>;
  const TilePlace at = tile_place<kWidth>(tiles);
  const ThreadSums<kWidth> own = sum_rows<4, kWidth>(x, tiles, at);
  const Values<kWidth> origin = at.active ? load_values<kWidth>(x + at.channel) : all_equal<kWidth>(0);
  const double count = static_cast<double>(own.count);
  double sums[kWidth], squares[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const double sum = own.sum.at[i];
    const double shift = count > 0 ? static_cast<double>(own.first.at[i]) - origin.at[i] : 0;
    sums[i] = sum + count * shift;
    squares[i] = own.squares.at[i] + (2 * sum + count * shift) * shift;
  }
  store_tile_sums(tiles, sums, partial_sums(partial, tiles.channels, 0));
  store_tile_sums(tiles, squares, partial_sums(partial, tiles.channels, 1));
}

// From the sums of deviations from row 0.
template <typename T>
struct FinishStatistics {
  BatchStatisticsCuda<T> args;
  float* scale;

  int64_t channel_bytes() const {
    const int64_t vectors = args.running_mean != nullptr ? 8 : 4;
    return vectors * static_cast<int64_t>(sizeof(float)) + static_cast<int64_t>(sizeof(T));
  }
  __device__ void operator()(int64_t channel, double sum, double squares) const {
    const double n = static_cast<double>(args.rows), shift = sum / n;
    const double mean = to_float(args.x[channel]) + shift, deviations = squares - sum * shift;
    const auto invstd = static_cast<float>(1 / sqrt(deviations / n + args.eps));
    args.saved_mean[channel] = static_cast<float>(mean);
    args.saved_invstd[channel] = invstd;
    scale[channel] = args.gamma[channel] * invstd;
    if (args.running_mean == nullptr) return;
    const double kept = 1 - args.momentum;
    args.running_mean[channel] = static_cast<float>(kept * args.running_mean[channel] + args.momentum * mean);
    args.running_var[channel] =
        static_cast<float>(kept * args.running_var[channel] + args.momentum * deviations / (n - 1));
  }
};

}  // namespace

int64_t batch_norm_cuda_workspace_bytes(int64_t rows, int64_t channels) {
  int64_t splits = 0;
  for (const int width : {1, 4, 8}) {
    if (channels % width == 0) splits = std::max<int64_t>(splits, channel_tiles(rows, channels, width).splits);
  }
  return channel_sums_bytes(channels, splits);
}

template <typename T>
const float* batch_statistics_cuda(const BatchStatisticsCuda<T>& args, cudaStream_t stream) {
  const float* scale = nullptr;
  with_constant(channels_pack(args.channels, {args.x}), [&](auto packed) {
    const ChannelTiles tiles = channel_tiles(args.rows, args.channels, kChannelWidth<T, packed.value>);
    const ChannelSums sums = channel_sums(args.workspace, args.channels, tiles.splits);
    const int64_t bytes = args.rows * args.channels * int64_t{sizeof(T)};
    launch<batch_norm_statistics_kernel<T, packed.value>>(
        {.grid = dim3(tiles.tiles, tiles.splits),
         .block = kChannelBlock,
         .bytes = bytes + partial_sums_bytes(args.channels, tiles.splits)},
        stream, args.x, tiles, sums.partial);
    finish_channel_sums(sums.partial, tiles.splits, args.channels,
                        FinishStatistics<T>{.args = args, .scale = sums.coefficients}, stream);
    scale = sums.coefficients;
  });
  return scale;
}

template const float* batch_statistics_cuda(const BatchStatisticsCuda<float>&, cudaStream_t);
template const float* batch_statistics_cuda(const BatchStatisticsCuda<Half>&, cudaStream_t);
template const float* batch_statistics_cuda(const BatchStatisticsCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
