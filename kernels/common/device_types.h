#pragma once
// Elements as kernels see them: stored as float, Half or BFloat16 (half.h), computed in float. values.h moves several.

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

}  // namespace engine::kernels
