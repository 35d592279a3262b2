#pragma once
// Small tables that kernels read, in the memory of a device.

#include <cstring>
#include <span>
#include <type_traits>

#include "engine/core/tensor.h"

namespace engine {

/// The entries' bytes on a device, as u8.
template <typename T>
Tensor upload_table(std::span<const T> entries, Device device, MemoryCategory category = MemoryCategory::workspace) {
  static_assert(std::is_trivially_copyable_v<T>);
  const Tensor host = Tensor::empty(Shape{static_cast<int64_t>(entries.size_bytes())}, DType::u8, category);
  if (!entries.empty()) std::memcpy(host.raw(), entries.data(), entries.size_bytes());
  return host.to(device);
}

/// The first entry of such a table; null where it is empty.
template <typename T>
T* table_data(const Tensor& table) {
  return table.defined() && table.numel() > 0 ? reinterpret_cast<T*>(table.raw()) : nullptr;
}

}  // namespace engine
