#pragma once
// What device code may use.

#include <bit>
#include <cstddef>
#include <cstdint>

// Not inlined into its launcher, so that a thread has its arguments on its own stack, however large they are, and what
// reads them there is no access to the host's memory.
#define __global__ __attribute__((noipa))
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

void __syncthreads();
void __syncwarp(unsigned mask = 0xFFFFFFFFU);
void __threadfence();

namespace emulator {
/// Memory of one shared array of the running block; `place` identifies the array.
char* shared_bytes(const void* place, size_t size, size_t alignment);
template <typename Array, typename Place>
Array& shared_slot(Place) {
  static const char place = 0;
  return *reinterpret_cast<Array*>(shared_bytes(&place, sizeof(Array), alignof(Array)));
}
/// All lanes of the mask meet; each hands in its bits and gets those of from_lane (0 to 31) of its warp.
uint64_t exchange(unsigned mask, uint64_t bits, int from_lane);
/// All lanes of the mask meet and get the lanes whose predicate holds.
unsigned ballot(unsigned mask, bool predicate);
int lane_id();

template <typename T>
T exchange_value(unsigned mask, T value, int from_lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<uint32_t>(exchange(mask, std::bit_cast<uint32_t>(value), from_lane)));
  } else {
    return std::bit_cast<T>(exchange(mask, std::bit_cast<uint64_t>(value), from_lane));
  }
}
}  // namespace emulator

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return emulator::exchange_value(mask, value, lane & 31);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return emulator::exchange_value(mask, value, emulator::lane_id() ^ lanes);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  const int from = emulator::lane_id() + static_cast<int>(delta);
  return emulator::exchange_value(mask, value, from < 32 ? from : emulator::lane_id());
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  const int from = emulator::lane_id() - static_cast<int>(delta);
  return emulator::exchange_value(mask, value, from >= 0 ? from : emulator::lane_id());
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return emulator::ballot(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return emulator::ballot(mask, predicate != 0) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return emulator::ballot(mask, predicate == 0) == 0; }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline float rsqrtf(float x) { return 1.0F / __builtin_sqrtf(x); }
template <typename T>
T __ldg(const T* p) {
  return *p;
}
int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
unsigned atomicOr(unsigned* address, unsigned value);
unsigned atomicMax(unsigned* address, unsigned value);
