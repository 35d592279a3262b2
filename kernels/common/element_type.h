#pragma once

#include <cstdint>

namespace engine::kernels {

/// What the elements of a tensor are in device memory, and which arithmetic a library may use on them. Sums are FP32 in
/// all of them.
enum class ElementType {
  f32,   // binary32, products in binary32
  tf32,  // binary32 in memory; products of operands rounded to 10 bits of fraction, on tensor cores
  f16,
  bf16,
};

constexpr int64_t element_bytes(ElementType type) {
  return type == ElementType::f32 || type == ElementType::tf32 ? 4 : 2;
}

/// "f32", "tf32", "f16", "bf16".
constexpr const char* element_name(ElementType type) {
  switch (type) {
    case ElementType::f32:
      return "f32";
    case ElementType::tf32:
      return "tf32";
    case ElementType::f16:
      return "f16";
    case ElementType::bf16:
      return "bf16";
  }
  return "?";
}

}  // namespace engine::kernels
