#pragma once
// Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC 2011). A number depends on (key, counter) alone, so results do not depend on threads or on
// recomputation.

#include <array>
#include <cstdint>

namespace engine::kernels {

struct Philox {
  using Block = std::array<uint32_t, 4>;

  /// The four 32-bit words for a 64-bit key and a 128-bit counter.
  static constexpr Block block(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
    Block x = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
               static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
    auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * x[0], p1 = uint64_t{0xCD9E8D57} * x[2];
      x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(p0)};
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    return x;
  }

  /// Uniform in [0, 1), from the upper 24 bits.
  static constexpr float uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }
};

}  // namespace engine::kernels
