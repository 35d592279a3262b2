#pragma once
// Elements as kernels see them: stored as float, Half or BFloat16 (half.h), computed in float, moved 16 bytes at a
// time.

#include <cstdint>
#include <type_traits>

#include "kernels/common/device.h"
#include "kernels/common/half.h"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace engine::kernels {

/// Exact.
__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(Half value) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return static_cast<float>(value);
#endif
}
__device__ inline float to_float(BFloat16 value) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
#else
  return static_cast<float>(value);
#endif
}

/// To the nearest, ties to even.
template <typename T>
__device__ inline T from_float(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
#if defined(__CUDA_ARCH__)
    T result;
    if constexpr (std::is_same_v<T, Half>) {
      result.bits = __half_as_ushort(__float2half_rn(value));
    } else {
      result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    }
    return result;
#else
    return T(value);
#endif
  }
}

/// Elements in 16 bytes.
template <typename T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// Whether [p, p + count) can be moved 16 bytes at a time.
template <typename T>
inline bool packs(const T* p, int64_t count) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && count % kPack<T> == 0;
}

/// kPack<T> neighbouring elements, as floats in registers.
template <typename T>
struct Pack {
  float at[kPack<T>];
};

namespace detail {
#if defined(ENGINE_CUDA)
using Bits128 = uint4;
#else
// One access for the compiler, and so for the emulator's hooks, which a struct of four words would not be.
typedef unsigned Bits128 __attribute__((vector_size(16), may_alias));
#endif
template <typename T>
struct alignas(16) Packed {
  T at[kPack<T>];
};
}  // namespace detail

/// p aligned to 16 bytes.
template <typename T>
__device__ inline Pack<T> load_pack(const T* p) {
  const auto bits = *reinterpret_cast<const detail::Bits128*>(p);
  const auto packed = __builtin_bit_cast(detail::Packed<T>, bits);
  Pack<T> result;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) result.at[i] = to_float(packed.at[i]);
  return result;
}

template <typename T>
__device__ inline void store_pack(T* p, const Pack<T>& values) {
  detail::Packed<T> packed;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) packed.at[i] = from_float<T>(values.at[i]);
  *reinterpret_cast<detail::Bits128*>(p) = __builtin_bit_cast(detail::Bits128, packed);
}

}  // namespace engine::kernels
