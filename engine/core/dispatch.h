#pragma once
// From a run-time type to a template parameter.

#include "engine/core/dtype.h"
#include "engine/core/error.h"

namespace engine {

/// Calls f.template operator()<float>() or <double>(); any other type is an error that names `what`.
template <typename F>
decltype(auto) dispatch_float(DType dtype, const char* what, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    default:
      throw Error(fmt::format("[{}] type: got {}, expected f32 or f64", what, name_of(dtype)));
  }
}

/// Calls f with the type of a CPU tensor of fractions: float, double, Half or BFloat16; any other is an error that
/// names `what`.
template <typename F>
decltype(auto) dispatch_floating(DType dtype, const char* what, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<kernels::Half>();
    case DType::bf16:
      return f.template operator()<kernels::BFloat16>();
    default:
      throw Error(fmt::format("[{}] type: got {}, expected f32, f64, f16 or bf16", what, name_of(dtype)));
  }
}

/// Calls f with the storage type of an accelerator's tensors: float, Half or BFloat16; any other is an error that names
/// `what`.
template <typename F>
decltype(auto) dispatch_device(DType dtype, const char* what, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<kernels::Half>();
    case DType::bf16:
      return f.template operator()<kernels::BFloat16>();
    default:
      throw Error(fmt::format("[{}] type: got {} on an accelerator, expected f32, f16 or bf16", what, name_of(dtype)));
  }
}

/// Calls f with the C++ type of any element type.
template <typename F>
decltype(auto) dispatch_all(DType dtype, const char* what, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::f16:
      return f.template operator()<kernels::Half>();
    case DType::bf16:
      return f.template operator()<kernels::BFloat16>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
  }
  throw Error(fmt::format("[{}] no such type", what));
}

}  // namespace engine
