#pragma once
// 16-bit floats as storage: IEEE 754 binary16 (Half) and bfloat16 (BFloat16). Arithmetic is done in float; both convert
// to float exactly and from float to the nearest value, ties to even, as IEEE 754 defines it. NaN stays NaN.

#include <bit>
#include <cstdint>

namespace engine::kernels {

struct Half {
  uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) : bits(encode(value)) {}
  explicit operator float() const { return decode(bits); }

 private:
  static uint16_t encode(float value) {
    const auto x = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((x >> 16) & 0x8000);
    const uint32_t magnitude = x & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
    if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // rounds to 65520 or above
    if (magnitude < 0x38800000) {
      // Subnormal in binary16: adding 0.5 lines the significand up so that the FPU rounds it.
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000));
    }
    const uint32_t odd = (magnitude >> 13) & 1;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xFFF + odd) >> 13));
  }

  static float decode(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, magnitude = half & 0x7FFF;
    if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
    if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
};

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) : bits(encode(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

 private:
  static uint16_t encode(float value) {
    const auto x = std::bit_cast<uint32_t>(value);
    if ((x & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((x >> 16) | 0x40);
    return static_cast<uint16_t>((x + 0x7FFF + ((x >> 16) & 1)) >> 16);
  }
};

}  // namespace engine::kernels
