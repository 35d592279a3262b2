#pragma once
// Small structs in device memory, moved by a warp's lanes together: one request of all their bytes, where a request for
// each field would move a sector for a few bytes.

#include <cstdint>

#include "kernels/common/device_reduce.h"
#include "kernels/common/values.h"

namespace engine::kernels {

namespace detail {
template <typename T>
struct Words {
  static_assert(sizeof(T) % 8 == 0 && sizeof(T) <= 256);
  static constexpr int kCount = static_cast<int>(sizeof(T) / 8);
  uint64_t at[kCount];
};
}  // namespace detail

/// *p, for all lanes; every lane of the warp must take part. p aligned to 8 bytes; padding is read, too.
template <typename T>
__device__ T load_by_warp(const T* p) {
  detail::Words<T> words;
  const int lane = thread_in_block() % kWarp;
  const detail::Bits64 bits = reinterpret_cast<const detail::Bits64*>(p)[lane % words.kCount];
  uint64_t mine = __builtin_bit_cast(uint64_t, bits);
#pragma unroll
  for (int i = 0; i < words.kCount; ++i) words.at[i] = __shfl_sync(kAllLanes, mine, i);
  return __builtin_bit_cast(T, words);
}

/// *p = value from its byte `first` on, a multiple of 8; every lane has the same value, and must take part.
template <typename T>
__device__ void store_by_warp(T* p, const T& value, int first) {
  const auto words = __builtin_bit_cast(detail::Words<T>, value);
  const int lane = thread_in_block() % kWarp;
  uint64_t mine = 0;
#pragma unroll
  for (int i = 0; i < words.kCount; ++i) mine = lane == i ? words.at[i] : mine;
  if (first <= 8 * lane && lane < words.kCount) {
    reinterpret_cast<detail::Bits64*>(p)[lane] = __builtin_bit_cast(detail::Bits64, mine);
  }
}

}  // namespace engine::kernels
