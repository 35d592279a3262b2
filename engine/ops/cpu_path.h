#pragma once
// Which CPU kernels float tensors use. Double always takes the reference, 16-bit types always the fast path.

#include "engine/core/dispatch.h"

namespace engine {

enum class CpuPath { fast, reference };

/// For the whole process; `reference` is what tests compare with.
void set_cpu_path(CpuPath path);
CpuPath cpu_path();

/// Calls fast.operator()<T>() for float tensors on the fast path and for 16-bit ones, else reference.operator()<T>().
/// `op` is named in the error for other types.
template <typename Fast, typename Reference>
void dispatch_cpu(DType dtype, const char* op, Fast&& fast, Reference&& reference) {
  if (dtype == DType::f16) {
    fast.template operator()<kernels::Half>();
  } else if (dtype == DType::bf16) {
    fast.template operator()<kernels::BFloat16>();
  } else if (dtype == DType::f32 && cpu_path() == CpuPath::fast) {
    fast.template operator()<float>();
  } else {
    dispatch_float(dtype, op, reference);
  }
}

}  // namespace engine
