#pragma once
// Tensors of any element type as floats, for library calls on the emulated device.

#include <cstdint>
#include <vector>

#include "kernels/common/element_type.h"
#include "kernels/common/half.h"

namespace engine::kernels {

/// Read-only floats of a tensor: the tensor itself where it is stored as such, else a converted copy.
class FloatsIn {
 public:
  FloatsIn(const void* data, int64_t count, ElementType type) : data_(static_cast<const float*>(data)) {
    if (type == ElementType::f16) convert(static_cast<const Half*>(data), count);
    if (type == ElementType::bf16) convert(static_cast<const BFloat16*>(data), count);
  }
  FloatsIn(const FloatsIn&) = delete;
  FloatsIn& operator=(const FloatsIn&) = delete;
  const float* data() const { return data_; }

 private:
  template <typename T>
  void convert(const T* values, int64_t count) {
    copy_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) copy_[static_cast<size_t>(i)] = static_cast<float>(values[i]);
    data_ = copy_.data();
  }

  const float* data_;
  std::vector<float> copy_;
};

/// Floats that become a tensor: the tensor itself where it is stored as such, else a buffer that store() rounds.
class FloatsOut {
 public:
  FloatsOut(void* data, int64_t count, ElementType type) : target_(data), count_(count), type_(type) {
    if (element_bytes(type) == 2) copy_.resize(static_cast<size_t>(count));
  }
  FloatsOut(const FloatsOut&) = delete;
  FloatsOut& operator=(const FloatsOut&) = delete;
  float* data() { return copy_.empty() ? static_cast<float*>(target_) : copy_.data(); }
  /// Rounds to the storage type and writes; data() then holds the rounded values.
  void store() {
    if (type_ == ElementType::f16) convert<Half>();
    if (type_ == ElementType::bf16) convert<BFloat16>();
  }

 private:
  template <typename T>
  void convert() {
    for (int64_t i = 0; i < count_; ++i) {
      float& value = copy_[static_cast<size_t>(i)];
      static_cast<T*>(target_)[i] = T(value);
      value = static_cast<float>(static_cast<T*>(target_)[i]);
    }
  }

  void* target_;
  int64_t count_;
  ElementType type_;
  std::vector<float> copy_;
};

}  // namespace engine::kernels
