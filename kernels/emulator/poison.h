#pragma once
// What memory holds that nobody wrote: NaN as float, double, half and bfloat16, huge as an integer.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulator {

inline constexpr uint64_t kPoison = 0x7FFF7FFF7FFF7FFFU;

inline void poison(void* memory, size_t bytes) {
  char* p = static_cast<char*>(memory);
  for (; bytes >= sizeof kPoison; p += sizeof kPoison, bytes -= sizeof kPoison) {
    std::memcpy(p, &kPoison, sizeof kPoison);
  }
  std::memcpy(p, &kPoison, bytes);
}

}  // namespace emulator
