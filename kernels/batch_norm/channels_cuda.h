#pragma once
// What the kernels over [rows, channels] share: a thread keeps to its channels, a pack of kWidth neighbouring ones, and
// walks over rows. Two ways to share rows out, one for sums over rows (ChannelTiles), one for results element by
// element (FlatRows). Both depend on the extents alone.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/common/device.h"
#include "kernels/common/device_reduce.h"
#include "kernels/common/device_types.h"
#include "kernels/common/values.h"

namespace engine::kernels {

inline constexpr int kChannelBlock = 256;
/// Blocks that a multiprocessor holds of most of these kernels, by their registers. Grids are one wave of an H200's.
inline constexpr int kBlocksPerProcessor = 3;
inline constexpr int64_t kProcessors = 132;

/// Channels that one thread works on.
template <typename T, bool kPacked>
inline constexpr int kChannelWidth = kPacked ? kPack<T> : 1;

/// Whether packs can be moved: 8 mask bits, a byte, then never belong to two rows.
inline bool channels_pack(int64_t channels, std::initializer_list<const void*> pointers) {
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  return channels % 8 == 0 && std::all_of(pointers.begin(), pointers.end(), aligned);
}

/// f(std::true_type()) or f(std::false_type()).
template <typename F>
void with_constant(bool condition, F&& f) {
  if (condition) {
    f(std::true_type{});
  } else {
    f(std::false_type{});
  }
}

/// kWidth elements as they lie in memory; {} is zeros. Held like this, not as floats, until they are needed: registers.
template <typename T, int kWidth>
struct RawValues {
  static_assert(kWidth == kPack<T>);
  detail::Bits128 bits{};
};
template <typename T>
struct RawValues<T, 1> {
  T bits{};
};

template <int kWidth, typename T>
__device__ inline RawValues<T, kWidth> load_raw(const T* p) {
  if constexpr (kWidth == 1) {
    return {*p};
  } else {
    return {*reinterpret_cast<const detail::Bits128*>(p)};
  }
}

template <typename T, int kWidth>
__device__ inline Values<kWidth> as_values(const RawValues<T, kWidth>& raw) {
  Values<kWidth> result;
  if constexpr (kWidth == 1) {
    result.at[0] = to_float(raw.bits);
  } else {
    const auto packed = __builtin_bit_cast(detail::StoredValues<T, kWidth>, raw.bits);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) result.at[i] = to_float(packed.at[i]);
  }
  return result;
}

template <int kWidth>
__device__ inline Values<kWidth> all_equal(float value) {
  Values<kWidth> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) result.at[i] = value;
  return result;
}

/// The affine map of each channel, z = (x - mean) * scale + beta, with scale = gamma * invstd. Null: mean 0, beta 0,
/// scale (by gamma) 1; invstd: from var and eps, or 1 where var is null, too.
struct ChannelNorm {
  const float* mean = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* invstd = nullptr;
  const float* var = nullptr;
  float eps = 0;
};

template <int kWidth>
struct ChannelAffine {
  Values<kWidth> mean, scale, beta;
};

/// One place for the rounding of evaluation's scale, which a mask that is computed again depends on.
__device__ inline float inverse_std(float var, float eps) { return 1.0F / sqrtf(var + eps); }

template <int kWidth>
__device__ inline ChannelAffine<kWidth> load_affine(const ChannelNorm& norm, int64_t channel) {
  ChannelAffine<kWidth> result;
  result.mean = norm.mean != nullptr ? load_values<kWidth>(norm.mean + channel) : all_equal<kWidth>(0);
  result.beta = norm.beta != nullptr ? load_values<kWidth>(norm.beta + channel) : all_equal<kWidth>(0);
  result.scale = norm.gamma != nullptr ? load_values<kWidth>(norm.gamma + channel) : all_equal<kWidth>(1);
  if (norm.gamma == nullptr || (norm.invstd == nullptr && norm.var == nullptr)) return result;
  const bool saved = norm.invstd != nullptr;
  const Values<kWidth> spread = load_values<kWidth>((saved ? norm.invstd : norm.var) + channel);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) result.scale.at[i] *= saved ? spread.at[i] : inverse_std(spread.at[i], norm.eps);
  return result;
}

/// The arithmetic that all kernels must share for a mask that is computed again to equal the first one.
__device__ inline float normalise_value(float x, float mean, float scale, float beta) {
  return fmaf(x - mean, scale, beta);
}

/// max(value, 0) that keeps NaN.
__device__ inline float rectify_value(float value) { return value <= 0 ? 0.0F : value; }

/// Rows and channels as blocks share them out for sums over rows: a block takes a tile of up to 32 packs of channels,
/// `lanes` rows of it at a time, and each `splits`-th such group of rows. Grid: (tiles, splits).
struct ChannelTiles {
  int64_t rows = 0, channels = 0;
  int columns = 0;  // packs in a tile
  int lanes = 0;    // rows at a time
  unsigned tiles = 0, splits = 0;
};

/// At most so many blocks are put over one tile of channels.
inline int64_t most_splits(int64_t channels, int width, int blocks_per_processor = kBlocksPerProcessor) {
  const int64_t packs = channels / width, tiles = (packs + kWarp - 1) / kWarp;
  return std::max<int64_t>(1, kProcessors * blocks_per_processor / std::max<int64_t>(tiles, 1));
}

/// Each block gets at least 4 rows a thread where there are as many.
inline ChannelTiles channel_tiles(int64_t rows, int64_t channels, int width) {
  const int64_t packs = channels / width, columns = std::clamp<int64_t>(packs, 1, kWarp);
  const int64_t lanes = kChannelBlock / columns, useful = (rows + lanes * 4 - 1) / (lanes * 4);
  return {.rows = rows,
          .channels = channels,
          .columns = static_cast<int>(columns),
          .lanes = static_cast<int>(lanes),
          .tiles = static_cast<unsigned>((packs + columns - 1) / columns),
          .splits = static_cast<unsigned>(
              std::clamp<int64_t>(most_splits(channels, width), 1, std::max<int64_t>(useful, 1)))};
}

/// A thread's part of a tile.
struct TilePlace {
  int lane;         // row within the block's group
  int64_t channel;  // first of the pack
  bool active;
};

template <int kWidth>
__device__ inline TilePlace tile_place(const ChannelTiles& tiles) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread / tiles.columns;
  const int64_t pack = static_cast<int64_t>(blockIdx.x) * tiles.columns + thread % tiles.columns;
  return {lane, pack * kWidth, lane < tiles.lanes && pack * kWidth < tiles.channels};
}

/// Adds up one number per channel over the block's rows, in the order of the threads, and writes totals[channel]. All
/// threads of the block take part; those that are not active hand in anything.
template <int kWidth>
__device__ inline void store_tile_sums(const ChannelTiles& tiles, const double (&values)[kWidth], double* totals) {
  // Rows of cells so far apart that both threads (writing) and channels (reading) in a row fall into different banks.
  constexpr int kStride = kChannelBlock + 16 / kWidth;
  ENGINE_SHARED(double, cells, kWidth* kStride);
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // a former call's cells have been read
#pragma unroll
  for (int i = 0; i < kWidth; ++i) cells[i * kStride + thread] = values[i];
  __syncthreads();
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * tiles.columns * kWidth + thread;
  if (thread >= tiles.columns * kWidth || channel >= tiles.channels) return;
  const double* cell = cells + thread % kWidth * kStride + thread / kWidth;
  double total = 0;
#pragma unroll 4
  for (int lane = 0; lane < tiles.lanes; ++lane) total += cell[lane * tiles.columns];
  totals[channel] = total;
}

/// Bytes of so many tensors of T and a mask.
template <typename T>
int64_t tensor_bytes(int64_t elements, int64_t tensors, bool mask) {
  return elements * tensors * static_cast<int64_t>(sizeof(T)) + (mask ? (elements + 31) / 32 * 4 : 0);
}

/// Elements as blocks share them out for results element by element: `threads` threads cover `stride` elements, whole
/// rows, at a time. The walk goes from the last row to the first, because what the pass before has read last is still
/// in the cache:
///   int64_t first = place.last;
///   for (int left = flat.steps; left > 0; --left, first -= flat.stride) if (flat_inside(flat, first)) ...
struct FlatRows {
  int64_t elements = 0;
  int64_t stride = 0;
  int steps = 0;
  unsigned packs = 0;    // of a row
  unsigned threads = 0;  // of single elements: a multiple of 32, so that a warp covers one word of a mask
};

inline FlatRows flat_rows(int64_t rows, int64_t channels, int width) {
  const int64_t packs = channels / width, granule = width == 1 ? kWarp : 1;
  const int64_t fitting =
      kProcessors * kBlocksPerProcessor * kChannelBlock / std::max<int64_t>(packs, 1) / granule * granule;
  // A thread loads its channels' coefficients for 4 packs at least, where there are as many rows.
  const int64_t quarter = (rows + 3) / 4, needed = (quarter + granule - 1) / granule * granule;
  const int64_t step = std::max(granule, std::min(fitting, needed));
  return {.elements = rows * channels,
          .stride = step * channels,
          .steps = static_cast<int>((rows + step - 1) / step),
          .packs = static_cast<unsigned>(packs),
          .threads = static_cast<unsigned>(rows > 0 ? step * packs : 0)};
}

struct FlatPlace {
  int64_t last;     // first element of the thread's pack in the last step
  int64_t channel;  // first of the pack
};

template <int kWidth>
__device__ inline FlatPlace flat_place(const FlatRows& flat) {
  const unsigned thread = blockIdx.x * kChannelBlock + threadIdx.x;
  const int64_t channel = static_cast<int64_t>(thread % flat.packs) * kWidth;
  if (thread >= flat.threads) return {INT64_MAX, channel};
  return {(flat.steps - 1) * flat.stride + static_cast<int64_t>(thread) * kWidth, channel};
}

/// Also false for what lies before the first element, and for threads that are left over.
__device__ inline bool flat_inside(const FlatRows& flat, int64_t first) {
  return static_cast<uint64_t>(first) < static_cast<uint64_t>(flat.elements);
}

/// The mask bits of kWidth elements from `first` on, in the lowest bits.
template <int kWidth>
__device__ inline unsigned load_mask(const uint32_t* mask, int64_t first) {
  if constexpr (kWidth == 1) {
    return mask[first / 32] >> (first % 32);
  } else {
    return static_cast<unsigned>(reinterpret_cast<const uint8_t*>(mask)[first / 8]) >> (first % 8);
  }
}

/// Writes them, in a walk over FlatRows. All lanes of the warp take part, those outside, too.
template <int kWidth>
__device__ inline void store_mask(uint32_t* mask, int64_t first, bool inside, unsigned bits) {
  if constexpr (kWidth == 1) {
    const unsigned word = __ballot_sync(kAllLanes, inside && bits != 0);
    if (inside && threadIdx.x % kWarp == 0) mask[first / 32] = word;
  } else {
    if constexpr (kWidth == 4) bits |= __shfl_xor_sync(kAllLanes, bits, 1) << 4;
    if (inside && first % 8 == 0) reinterpret_cast<uint8_t*>(mask)[first / 8] = static_cast<uint8_t>(bits);
  }
}

}  // namespace engine::kernels
