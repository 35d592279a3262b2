#pragma once
// Division by a number that the host knows, in a few instructions: by multiplication (Granlund and Montgomery,
// "Division by invariant integers using multiplication", PLDI 1994).

#include <bit>
#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

class FastDivisor {
 public:
  /// divisor in [1, 2^31).
  explicit constexpr FastDivisor(uint32_t divisor) : divisor_(divisor), shift_(31 + std::bit_width(divisor - 1)) {
    multiplier_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + divisor - 1) / divisor);
  }

  /// value / divisor, rounded down; value in [0, 2^31).
  __host__ __device__ constexpr int quotient(int value) const {
    return static_cast<int>(static_cast<uint64_t>(value) * multiplier_ >> shift_);
  }
  __host__ __device__ constexpr int divisor() const { return static_cast<int>(divisor_); }

 private:
  uint32_t divisor_, multiplier_ = 0;
  int shift_;
};

}  // namespace engine::kernels
