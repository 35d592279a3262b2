#pragma once
// Which CPU kernels float tensors use. Double always takes the reference.

#include <type_traits>

namespace engine {

enum class CpuPath { fast, reference };

/// For the whole process; `reference` is what tests compare with.
void set_cpu_path(CpuPath path);
CpuPath cpu_path();

/// Whether an op on T takes the fast kernels.
template <typename T>
bool use_fast() {
  return std::is_same_v<T, float> && cpu_path() == CpuPath::fast;
}

}  // namespace engine
