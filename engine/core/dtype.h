#pragma once
// Element types of tensors.

#include <cstddef>
#include <cstdint>

#include "kernels/common/half.h"

namespace engine {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, u8 };

/// Bytes of one element.
size_t size_of(DType dtype);
/// The short name, e.g. "f32".
const char* name_of(DType dtype);
/// Whether the type holds fractions.
bool is_floating(DType dtype);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<kernels::Half> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<kernels::BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};

/// The DType that stores a C++ type.
template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace engine
