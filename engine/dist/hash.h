#pragma once
// A 64-bit hash of bytes, to tell whether processes hold the same. It is no protection against intent.

#include <cstdint>
#include <cstring>

namespace engine {

/// Mixes eight bytes at a time by multiplication and rotation with the constants of MurmurHash3's finaliser.
class Hash {
 public:
  void add(const void* data, size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), from += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, from, sizeof word);
      mix(word);
    }
    uint64_t rest = bytes + 1;  // so that trailing zeros count
    for (size_t i = 0; i < bytes; ++i) rest = rest << 8 | from[i];
    mix(rest);
  }
  uint64_t value() const { return state_; }

 private:
  void mix(uint64_t word) {
    state_ ^= word;
    state_ *= 0xFF51AFD7ED558CCDULL;
    state_ ^= state_ >> 33;
    state_ *= 0xC4CEB9FE1A85EC53ULL;
    state_ ^= state_ >> 29;
  }

  uint64_t state_ = 0x9E3779B97F4A7C15ULL;
};

}  // namespace engine
