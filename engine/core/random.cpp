#include "engine/core/random.h"

#include <cmath>
#include <numbers>

namespace engine {

RandomStream::RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t a, uint32_t b)
    : key_(seed ^ (static_cast<uint64_t>(purpose) << 56)),
      counter_low_(static_cast<uint64_t>(b) << 32),
      counter_high_(a) {}

uint32_t RandomStream::next_u32() {
  if (used_ == 4) {
    block_ = kernels::Philox::block(key_, counter_low_++, counter_high_);
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

__extension__ using Wide = unsigned __int128;  // not ISO C++, but in GCC and Clang

uint64_t RandomStream::below(uint64_t count) {
  const uint64_t threshold = (0 - count) % count;
  while (true) {
    const uint64_t high = next_u32(), low = next_u32();
    const auto product = static_cast<Wide>(high << 32 | low) * count;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

float RandomStream::normal() {
  const float u = 1.0F - uniform(), v = uniform();  // u in (0, 1]
  return std::sqrt(-2.0F * std::log(u)) * std::cos(2.0F * std::numbers::pi_v<float> * v);
}

uint64_t hash_of(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

}  // namespace engine
