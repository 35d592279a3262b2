#pragma once
// A few neighbouring elements moved at once, in accesses of 8 or 16 bytes, and held as floats.

#include "kernels/common/device_types.h"

namespace engine::kernels {

/// In registers, as floats.
template <int kCount>
struct Values {
  float at[kCount];
};

/// A tag for how many neighbouring elements are dealt with at once.
template <int kCount>
struct Count {};

namespace detail {
#if defined(ENGINE_CUDA)
using Bits64 = uint2;
using Bits128 = uint4;
#else
// One access for the compiler, and so for the emulator's hooks, which a struct of several words would not be.
typedef unsigned Bits64 __attribute__((vector_size(8), may_alias));
typedef unsigned Bits128 __attribute__((vector_size(16), may_alias));
#endif
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) StoredValues {
  T at[kCount];
};
template <int kBytes>
struct BitsOf;
template <>
struct BitsOf<16> {
  using Type = Bits128;
};
template <>
struct BitsOf<8> {
  using Type = Bits64;
};
}  // namespace detail

/// One element, as many as 8 or 16 bytes hold, or any multiple of 16 bytes; p aligned to what is moved at once.
template <int kCount, typename T>
__device__ inline Values<kCount> load_values(const T* p) {
  Values<kCount> result;
  if constexpr (kCount == 1) {
    result.at[0] = to_float(*p);
  } else {
    constexpr int kStep = kCount < kPack<T> ? kCount : kPack<T>;
    using Bits = typename detail::BitsOf<sizeof(T) * kStep>::Type;
#pragma unroll
    for (int first = 0; first < kCount; first += kStep) {
      const auto bits = *reinterpret_cast<const Bits*>(p + first);
      const auto stored = __builtin_bit_cast(detail::StoredValues<T, kStep>, bits);
#pragma unroll
      for (int i = 0; i < kStep; ++i) result.at[first + i] = to_float(stored.at[i]);
    }
  }
  return result;
}

/// One element, or as many as 8 or 16 bytes hold.
template <int kCount, typename T>
__device__ inline void store_values(T* p, const Values<kCount>& values) {
  if constexpr (kCount == 1) {
    *p = from_float<T>(values.at[0]);
  } else {
    using Bits = typename detail::BitsOf<sizeof(T) * kCount>::Type;
    detail::StoredValues<T, kCount> stored;
#pragma unroll
    for (int i = 0; i < kCount; ++i) stored.at[i] = from_float<T>(values.at[i]);
    *reinterpret_cast<Bits*>(p) = __builtin_bit_cast(Bits, stored);
  }
}

}  // namespace engine::kernels
