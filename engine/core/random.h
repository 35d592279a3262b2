#pragma once
// Named streams of random numbers over counter-based Philox: a stream depends on its keys alone, so results do not
// depend on threads, workers or on what was drawn before.

#include <cstdint>
#include <string_view>

#include "kernels/common/philox.h"

namespace engine {

/// What a stream is for; equal seeds give unrelated numbers for different purposes.
enum class RandomPurpose : uint32_t { init = 1, shuffle = 2, augment = 3, dropout = 4, synthetic = 5 };

/// A stream keyed by (seed, purpose, a, b), e.g. (seed, augment, epoch, sample). Holds 2^32 blocks of four words.
class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t a = 0, uint32_t b = 0);

  uint32_t next_u32();
  /// Uniform in [0, 1).
  float uniform() { return kernels::Philox::uniform(next_u32()); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Uniform in [0, count) without bias (Lemire, "Fast Random Integer Generation in an Interval", 2019); 0 < count.
  uint64_t below(uint64_t count);
  /// Standard normal (Box and Muller, 1958).
  float normal();

 private:
  uint64_t key_;
  uint64_t counter_low_ = 0;  // upper half: b; lower half: blocks drawn
  uint64_t counter_high_;
  kernels::Philox::Block block_{};
  int used_ = 4;
};

/// A 64-bit key from a name (FNV-1a), e.g. of a parameter.
uint64_t hash_of(std::string_view name);

}  // namespace engine
