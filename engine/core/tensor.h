#pragma once
// Typed, strided views of reference-counted memory.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/allocator.h"
#include "engine/core/device.h"
#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace engine {

/// A block of memory; freed with its last owner, on an accelerator in the order of its compute stream.
class Storage {
 public:
  Storage(int64_t bytes, MemoryCategory category, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  MemoryCategory category() const { return category_; }
  Device device() const { return device_; }

 private:
  char* data_;
  int64_t bytes_;
  MemoryCategory category_;
  Device device_;
};

struct AutogradMeta;  // engine/autograd/node.h

/// A handle: copies share memory and autograd state, and constness does not reach the elements. Views (view, narrow,
/// select, transpose) share memory and carry no autograd state; the differentiable forms are in engine/ops/view.h.
/// Threads may read and copy a handle at once; writing elements is the caller's to order.
class Tensor {
 public:
  Tensor() = default;  // undefined

  /// Uninitialised, contiguous, outermost axis first. Throws OutOfMemoryError.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32,
                      MemoryCategory category = MemoryCategory::activations, Device device = Device::cpu());
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32,
                      MemoryCategory category = MemoryCategory::activations, Device device = Device::cpu());
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  /// Uninitialised, on this tensor's device.
  Tensor new_empty(const Shape& shape, DType dtype, MemoryCategory category = MemoryCategory::activations) const {
    return empty(shape, dtype, category, device());
  }
  template <typename T>
  static Tensor from_vector(const Shape& shape, const std::vector<T>& values);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int axis) const { return shape_[axis]; }
  int rank() const { return shape_.rank(); }
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return numel() * static_cast<int64_t>(size_of(dtype_)); }
  DType dtype() const { return dtype_; }
  Device device() const;
  /// Distance in elements between neighbours along an axis.
  int64_t stride(int axis) const;
  bool is_contiguous() const;

  /// First element, in the device's memory. Throws engine::Error where T is not the tensor's type or the tensor is
  /// undefined.
  template <typename T>
  T* data() const {
    check_type(dtype_of<T>);
    return reinterpret_cast<T*>(raw());
  }
  char* raw() const;
  /// The elements in order, after all work on the device's compute stream; for tests and small results.
  template <typename T>
  std::vector<T> to_vector() const;
  /// The one element of a tensor with a single element, as double.
  double item() const;

  /// The same memory in another shape of as many elements; contiguous tensors only.
  Tensor view(const Shape& shape) const;
  /// Indices [begin, begin + length) of an axis.
  Tensor narrow(int axis, int64_t begin, int64_t length) const;
  /// One index of an axis, which disappears.
  Tensor select(int axis, int64_t index) const;
  /// Two axes exchanged.
  Tensor transpose(int a, int b) const;
  /// Itself where contiguous, else a contiguous copy.
  Tensor contiguous() const;
  /// A contiguous copy without autograd state.
  Tensor clone(MemoryCategory category = MemoryCategory::activations) const;
  /// A contiguous copy on another device without autograd state; itself where it is there already.
  Tensor to(Device device) const;
  /// The same memory without autograd state.
  Tensor detach() const;
  /// Overwrites the elements; the same shape and type, both contiguous. Between devices in the order of the compute
  /// stream; the host waits where it is the target, and may reuse its memory at once where it is the source.
  void copy_from(const Tensor& source) const;
  void fill(double value) const;

  /// Whether nobody else holds the memory, so that it may be written in place.
  bool owns_alone() const { return storage_.use_count() == 1; }
  bool shares_memory_with(const Tensor& other) const { return storage_ == other.storage_; }

  const std::shared_ptr<AutogradMeta>& autograd() const { return autograd_; }
  void set_autograd(std::shared_ptr<AutogradMeta> meta) { autograd_ = std::move(meta); }

 private:
  void check_type(DType wanted) const;
  void set_contiguous_strides();

  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  // elements
  Shape shape_;
  std::array<int64_t, Shape::kMaxRank> strides_{};
  DType dtype_ = DType::f32;
  std::shared_ptr<AutogradMeta> autograd_;
};

}  // namespace engine
