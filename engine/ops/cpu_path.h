#pragma once
// Which CPU kernels float tensors use. Double always takes the reference.

#include "engine/core/dispatch.h"

namespace engine {

enum class CpuPath { fast, reference };

/// For the whole process; `reference` is what tests compare with.
void set_cpu_path(CpuPath path);
CpuPath cpu_path();

/// Calls fast() for float tensors on the fast path, else reference.operator()<T>(). `op` is named in the error for
/// other types.
template <typename Fast, typename Reference>
void dispatch_cpu(DType dtype, const char* op, Fast&& fast, Reference&& reference) {
  if (dtype == DType::f32 && cpu_path() == CpuPath::fast) {
    fast();
  } else {
    dispatch_float(dtype, op, reference);
  }
}

}  // namespace engine
