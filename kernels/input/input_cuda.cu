#include "kernels/input/input_cuda.h"

#include <algorithm>

#include "kernels/common/launch.h"
#include "kernels/common/values.h"

namespace engine::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kTilePixels = 1024;    // of a block: whole rows, one at least
constexpr int64_t kStagedPixels = 2048;  // rows up to here fit into shared memory

/// How many neighbouring elements of y a thread writes at once. Where a pixel is no vector it is one, so that a warp's
/// elements lie side by side all the same.
template <typename T, int kPadded>
constexpr int kStored = kPadded % 4 != 0 ? 1 : (kPadded < kPack<T> ? kPadded : kPack<T>);

/// Copies [first_byte, first_byte + bytes) of the pictures in aligned vectors, and up to 15 bytes on both sides with
/// it. Returns where in `staged` the first byte is.
__device__ int stage(detail::Bits128* staged, const uint8_t* pictures, int64_t picture_bytes, int64_t first_byte,
                     int bytes) {
  const int64_t first = first_byte / 16 * 16;
  const int lead = static_cast<int>(first_byte - first);
  const int64_t vectors = (lead + bytes + 15) / 16;
  const int whole = static_cast<int>(std::min(vectors, (picture_bytes - first) / 16));
  const int thread = static_cast<int>(threadIdx.x);
  const auto* source = reinterpret_cast<const detail::Bits128*>(pictures + first);
#pragma unroll 1
  for (int i = thread; i < whole; i += kThreads) staged[i] = source[i];
  auto* staged_bytes = reinterpret_cast<uint8_t*>(staged);
  for (int i = 16 * whole + thread; i < lead + bytes; i += kThreads) staged_bytes[i] = pictures[first + i];
  return lead;
}

__device__ float pick(const float (&values)[3], int channel) {
  return channel == 0 ? values[0] : (channel == 1 ? values[1] : values[2]);
}

/// kCount elements of a pixel from first_channel on; bytes: the pixel's.
template <int kCount, int kChannels>
__device__ Values<kCount> normalized(const PixelScale& pixel, const uint8_t* bytes, int first_channel) {
  Values<kCount> result{};
  if constexpr (kCount == 1) {
    const auto value = static_cast<float>(bytes[first_channel]);
    result.at[0] = value * pick(pixel.scale, first_channel) + pick(pixel.shift, first_channel);
  } else if (first_channel == 0) {  // what follows is padding
#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      result.at[k] = static_cast<float>(bytes[k]) * pixel.scale[k] + pixel.shift[k];
    }
  }
  return result;
}

template <typename T>
struct InputTask {
  PixelScale pixel;
  int rows;  // of all pictures
  int h, w;
  int block_rows;
  const uint8_t* pictures;
  const uint8_t* flips;
  T* y;
};

template <typename T, int kChannels, int kPadded, bool kStaged>
__global__ void __launch_bounds__(kThreads) input_forward_kernel(InputTask<T> task) {
  constexpr int kCount = kStored<T, kPadded>, kPixelItems = kPadded / kCount;
  const int thread = static_cast<int>(threadIdx.x);
  const int first_row = static_cast<int>(blockIdx.x) * task.block_rows;
  const int rows = std::min(task.block_rows, task.rows - first_row);
  const int64_t row_bytes = int64_t{task.w} * kChannels;
  const uint8_t* bytes = task.pictures + first_row * row_bytes;
  ENGINE_SHARED(uint8_t, flipped, kTilePixels);
#pragma unroll 1
  for (int row = thread; row < rows; row += kThreads) {
    flipped[row] = task.flips != nullptr && task.flips[(first_row + row) / task.h] != 0 ? 1 : 0;
  }
  if constexpr (kStaged) {
    ENGINE_SHARED(detail::Bits128, staged, kStagedPixels * kChannels / 16 + 2);
    const int lead =
        stage(staged, task.pictures, task.rows * row_bytes, first_row * row_bytes, rows * static_cast<int>(row_bytes));
    bytes = reinterpret_cast<const uint8_t*>(staged) + lead;
  }
  __syncthreads();
  T* y = task.y + first_row * (int64_t{task.w} * kPadded);
  const int row_items = task.w * kPixelItems;
  const float rows_per_item = 1.0F / static_cast<float>(row_items);
  for (int item = thread; item < rows * row_items; item += kThreads) {
    // Exact: a quotient lies at least half an item from the next whole number, and a staged tile has few items.
    const int row = kStaged ? static_cast<int>((static_cast<float>(item) + 0.5F) * rows_per_item) : 0;
    const int row_item = item - row * row_items;
    const int x = row_item / kPixelItems, channel = row_item % kPixelItems * kCount;
    const int source = (row * task.w + (flipped[row] != 0 ? task.w - 1 - x : x)) * kChannels;
    store_values(y + int64_t{item} * kCount, normalized<kCount, kChannels>(task.pixel, bytes + source, channel));
  }
}

template <typename T, int kChannels, int kPadded>
void launch_input(const InputTask<T>& task, cudaStream_t stream) {
  const int64_t pixels = int64_t{task.rows} * task.w;
  const LaunchShape shape{.grid = blocks_for(task.rows, task.block_rows),
                          .block = kThreads,
                          .bytes = pixels * (kChannels + kPadded * int64_t{sizeof(T)})};
  if (task.w <= kStagedPixels) {
    launch<input_forward_kernel<T, kChannels, kPadded, true>>(shape, stream, task);
  } else {
    launch<input_forward_kernel<T, kChannels, kPadded, false>>(shape, stream, task);
  }
}

template <typename T, int kChannels>
void launch_padded(const InputTask<T>& task, int padded, cudaStream_t stream) {
  if (padded == 8) {
    launch_input<T, kChannels, 8>(task, stream);
  } else if (padded == 4) {
    launch_input<T, kChannels, 4>(task, stream);
  } else {
    launch_input<T, kChannels, kChannels>(task, stream);
  }
}

}  // namespace

template <typename T>
void input_cuda(const InputSpec& spec, const uint8_t* pictures, const uint8_t* flips, T* y, cudaStream_t stream) {
  check_input(spec);
  if (spec.n == 0 || spec.h == 0 || spec.w == 0) return;
  const InputTask<T> task{.pixel = spec.pixel,
                          .rows = static_cast<int>(spec.n * spec.h),
                          .h = static_cast<int>(spec.h),
                          .w = static_cast<int>(spec.w),
                          .block_rows = static_cast<int>(std::max<int64_t>(1, kTilePixels / spec.w)),
                          .pictures = pictures,
                          .flips = flips,
                          .y = y};
  if (spec.c == 3) {
    launch_padded<T, 3>(task, spec.c_padded, stream);
  } else {
    launch_padded<T, 1>(task, spec.c_padded, stream);
  }
}

template void input_cuda(const InputSpec&, const uint8_t*, const uint8_t*, float*, cudaStream_t);
template void input_cuda(const InputSpec&, const uint8_t*, const uint8_t*, Half*, cudaStream_t);
template void input_cuda(const InputSpec&, const uint8_t*, const uint8_t*, BFloat16*, cudaStream_t);

}  // namespace engine::kernels
