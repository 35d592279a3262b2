#include "engine/core/tensor.h"

#include <algorithm>
#include <cstring>

#include "engine/core/dispatch.h"
#include "engine/core/error.h"
#include "engine/core/stream.h"
#include "kernels/common/cuda_error.h"
#include "kernels/fill/fill.h"

namespace engine {
namespace {

size_t at(int axis) { return static_cast<size_t>(axis); }

/// Copies a strided tensor to contiguous memory, axis by axis.
void copy_strided(const Tensor& source, const char* from, char* to, int axis, int64_t element) {
  const int64_t count = source.dim(axis), step = source.stride(axis) * element;
  if (axis == source.rank() - 1) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * element, from + i * step, static_cast<size_t>(element));
    return;
  }
  int64_t inner = element;
  for (int a = axis + 1; a < source.rank(); ++a) inner *= source.dim(a);
  for (int64_t i = 0; i < count; ++i) copy_strided(source, from + i * step, to + i * inner, axis + 1, element);
}

/// Copies bytes where at least one side is an accelerator, in the order of its compute stream.
void copy_bytes(const Tensor& target, const Tensor& source) {
  const Device to = target.device(), from = source.device();
  const Stream& stream = compute_stream(to.is_cpu() ? from : to);
  use_device(stream.device());
  if (!to.is_cpu() && !from.is_cpu() && to != from) {
    // The source's work must be done; the two streams have no common order.
    compute_stream(from).synchronize();
    kernels::check_cuda(cudaMemcpyPeerAsync(target.raw(), to.index, source.raw(), from.index,
                                            static_cast<size_t>(target.bytes()), stream.handle()),
                        "cudaMemcpyPeerAsync");
    return;
  }
  copy_async(target.raw(), source.raw(), target.bytes(), stream);
  if (to.is_cpu()) stream.synchronize();
}

void fill_on_device(const Tensor& tensor, double value) {
  if (tensor.numel() == 0) return;
  cudaStream_t stream = compute_stream(tensor.device()).handle();
  use_device(tensor.device());
  if (value == 0) {
    return kernels::check_cuda(cudaMemsetAsync(tensor.raw(), 0, static_cast<size_t>(tensor.bytes()), stream),
                               "cudaMemsetAsync");
  }
  dispatch_device(tensor.dtype(), "fill", [&]<typename T>() {
    kernels::fill_cuda(static_cast<float>(value), tensor.data<T>(), tensor.numel(), stream);
  });
}

}  // namespace

Storage::Storage(int64_t bytes, MemoryCategory category, Device device)
    : data_(nullptr), bytes_(bytes), category_(category), device_(device) {
  if (!device.is_cpu() && device.kind != kAcceleratorKind) {
    throw DeviceError("memory of " + name_of(device) + ": got a build without such devices, expected one with them");
  }
  data_ = static_cast<char*>(device.is_cpu() ? detail::allocate_host(bytes, category)
                                             : detail::allocate_device(bytes, category, device));
}

Storage::~Storage() {
  device_.is_cpu() ? detail::free_host(data_, bytes_, category_)
                   : detail::free_device(data_, bytes_, category_, device_);
}

Tensor Tensor::empty(const Shape& shape, DType dtype, MemoryCategory category, Device device) {
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.set_contiguous_strides();
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.numel(), static_cast<int64_t>(size_of(dtype)), &bytes)) {
    throw OutOfMemoryError(fmt::format("out of memory: a tensor of {} elements", shape.numel()));
  }
  tensor.storage_ = std::make_shared<Storage>(bytes, category, device);
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, MemoryCategory category, Device device) {
  Tensor tensor = empty(shape, dtype, category, device);
  if (!device.is_cpu()) {
    fill_on_device(tensor, 0);
  } else if (tensor.bytes() > 0) {
    std::memset(tensor.raw(), 0, static_cast<size_t>(tensor.bytes()));
  }
  return tensor;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  tensor.fill(value);
  return tensor;
}

template <typename T>
Tensor Tensor::from_vector(const Shape& shape, const std::vector<T>& values) {
  ENGINE_CHECK(static_cast<int64_t>(values.size()) == shape.numel(), "[tensor] from_vector: got {} values, expected {}",
               values.size(), shape.str());
  Tensor tensor = empty(shape, dtype_of<T>);
  if (!values.empty()) std::memcpy(tensor.raw(), values.data(), values.size() * sizeof(T));
  return tensor;
}

template <typename T>
std::vector<T> Tensor::to_vector() const {
  const Tensor source = contiguous().to(Device::cpu());
  const T* first = source.data<T>();
  return std::vector<T>(first, first + numel());
}

template Tensor Tensor::from_vector(const Shape&, const std::vector<double>&);
template Tensor Tensor::from_vector(const Shape&, const std::vector<float>&);
template Tensor Tensor::from_vector(const Shape&, const std::vector<int64_t>&);
template Tensor Tensor::from_vector(const Shape&, const std::vector<int32_t>&);
template Tensor Tensor::from_vector(const Shape&, const std::vector<uint8_t>&);
template std::vector<double> Tensor::to_vector() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<int64_t> Tensor::to_vector() const;
template std::vector<int32_t> Tensor::to_vector() const;
template std::vector<uint8_t> Tensor::to_vector() const;

Device Tensor::device() const {
  ENGINE_CHECK(defined(), "[tensor] device of an undefined tensor");
  return storage_->device();
}

int64_t Tensor::stride(int axis) const {
  dim(axis);
  return strides_[at(axis < 0 ? axis + rank() : axis)];
}

bool Tensor::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (dim(axis) != 1 && strides_[at(axis)] != expected) return false;
    expected *= dim(axis);
  }
  return true;
}

char* Tensor::raw() const {
  ENGINE_CHECK(defined(), "[tensor] data of an undefined tensor");
  return storage_->data() + offset_ * static_cast<int64_t>(size_of(dtype_));
}

double Tensor::item() const {
  ENGINE_CHECK(numel() == 1, "[tensor] item: got {}, expected one element", shape_.str());
  if (!device().is_cpu()) return to(Device::cpu()).item();
  return dispatch_all(dtype_, "item", [&]<typename T>() {
    if constexpr (sizeof(T) == 2) {
      return static_cast<double>(static_cast<float>(*data<T>()));
    } else {
      return static_cast<double>(*data<T>());
    }
  });
}

Tensor Tensor::view(const Shape& shape) const {
  ENGINE_CHECK(is_contiguous(), "[tensor] view: got strides with gaps, expected a contiguous tensor");
  ENGINE_CHECK(shape.numel() == numel(), "[tensor] view: got {}, expected as many elements as {}", shape.str(),
               shape_.str());
  Tensor result = detach();
  result.shape_ = shape;
  result.set_contiguous_strides();
  return result;
}

Tensor Tensor::narrow(int axis, int64_t begin, int64_t length) const {
  ENGINE_CHECK(begin >= 0 && length >= 0 && begin <= dim(axis) - length,
               "[tensor] narrow: got {} indices from {} of axis {}, expected a part of {}", length, begin, axis,
               shape_.str());
  Tensor result = detach();
  result.offset_ += begin * stride(axis);
  result.shape_ = shape_.with(axis, length);
  return result;
}

Tensor Tensor::select(int axis, int64_t index) const {
  const int position = axis < 0 ? axis + rank() : axis;
  Tensor result = narrow(axis, index, 1);
  std::vector<int64_t> extents;
  int kept = 0;
  for (int a = 0; a < rank(); ++a) {
    if (a == position) continue;
    extents.push_back(dim(a));
    result.strides_[at(kept++)] = strides_[at(a)];
  }
  result.shape_ = Shape(std::span<const int64_t>(extents));
  return result;
}

Tensor Tensor::transpose(int a, int b) const {
  const int first = a < 0 ? a + rank() : a, second = b < 0 ? b + rank() : b;
  std::vector<int64_t> extents(shape_.extents().begin(), shape_.extents().end());
  ENGINE_CHECK(first >= 0 && first < rank() && second >= 0 && second < rank(),
               "[tensor] transpose: got axes {} and {}, expected two of {}", a, b, shape_.str());
  std::swap(extents[at(first)], extents[at(second)]);
  Tensor result = detach();
  result.shape_ = Shape(std::span<const int64_t>(extents));
  std::swap(result.strides_[at(first)], result.strides_[at(second)]);
  return result;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone(MemoryCategory category) const {
  Tensor result = empty(shape_, dtype_, category, device());
  if (numel() == 0) return result;
  if (!device().is_cpu()) {
    ENGINE_CHECK(is_contiguous(), "[tensor] clone: got strides with gaps on {}, expected a contiguous tensor",
                 name_of(device()));
    copy_bytes(result, *this);
  } else if (is_contiguous()) {
    std::memcpy(result.raw(), raw(), static_cast<size_t>(bytes()));
  } else {
    copy_strided(*this, raw(), result.raw(), 0, static_cast<int64_t>(size_of(dtype_)));
  }
  return result;
}

Tensor Tensor::to(Device target) const {
  if (device() == target) return *this;
  const Tensor source = contiguous();
  Tensor result = empty(shape_, dtype_, storage_->category(), target);
  if (numel() > 0) copy_bytes(result, source);
  return result;
}

Tensor Tensor::detach() const {
  Tensor result = *this;
  result.autograd_.reset();
  return result;
}

void Tensor::copy_from(const Tensor& source) const {
  ENGINE_CHECK(source.shape_ == shape_ && source.dtype_ == dtype_, "[tensor] copy_from: got {} {}, expected {} {}",
               name_of(source.dtype_), source.shape_.str(), name_of(dtype_), shape_.str());
  ENGINE_CHECK(is_contiguous() && source.is_contiguous(), "[tensor] copy_from: expected contiguous tensors");
  if (numel() == 0) return;
  if (device().is_cpu() && source.device().is_cpu()) {
    std::memmove(raw(), source.raw(), static_cast<size_t>(bytes()));
  } else if (raw() != source.raw()) {
    copy_bytes(*this, source);
  }
}

void Tensor::fill(double value) const {
  ENGINE_CHECK(is_contiguous(), "[tensor] fill: expected a contiguous tensor");
  if (!device().is_cpu()) {
    return fill_on_device(*this, value);
  }
  dispatch_all(dtype_, "fill", [&]<typename T>() {
    T element;
    if constexpr (sizeof(T) == 2) {
      element = T(static_cast<float>(value));
    } else {
      element = static_cast<T>(value);
    }
    std::fill_n(data<T>(), numel(), element);
  });
}

void Tensor::check_type(DType wanted) const {
  ENGINE_CHECK(dtype_ == wanted, "[tensor] data: got {}, expected {}", name_of(wanted), name_of(dtype_));
}

void Tensor::set_contiguous_strides() {
  int64_t stride = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    strides_[at(axis)] = stride;
    // Can only overflow where another extent is 0, and then no element is there to be reached.
    if (__builtin_mul_overflow(stride, dim(axis), &stride)) stride = 0;
  }
}

}  // namespace engine
