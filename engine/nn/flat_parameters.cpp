#include "engine/nn/flat_parameters.h"

#include "engine/autograd/backward.h"
#include "engine/core/error.h"
#include "engine/ops/cast.h"

namespace engine {
namespace {

int64_t aligned(int64_t count) {
  return (count + FlatParameters::kAlignment - 1) / FlatParameters::kAlignment * FlatParameters::kAlignment;
}

Tensor view_of(const Tensor& buffer, const FlatRange& range) {
  return buffer.narrow(0, range.offset, range.count).view(range.parameter.tensor.shape());
}

}  // namespace

FlatParameters::FlatParameters(Module& model, Device device, DType compute)
    : model_(model), device_(device), compute_(compute) {
  ENGINE_CHECK(compute == DType::f32 || compute == DType::f16 || compute == DType::bf16,
               "[flat_parameters] compute: got {}, expected f32, f16 or bf16", name_of(compute));
  place_parameters();
  move_parameters();
  move_buffers();
}

void FlatParameters::place_parameters() {
  for (NamedTensor& parameter : model_.parameters()) {
    const int64_t count = parameter.tensor.numel();
    ranges_.push_back({std::move(parameter), 0, count});
  }
  int64_t size = 0;
  const auto add_region = [&](auto&& belongs) {
    const int64_t begin = size;
    for (FlatRange& range : ranges_) {
      if (!belongs(range.parameter.kind)) continue;
      range.offset = size;
      size += aligned(range.count);
    }
    regions_.push_back({.offset = begin, .count = size - begin, .gradients = {}, .compute_copy = {}});
  };
  if (compute_ == DType::f32) {
    add_region([](ParameterKind) { return true; });
  } else {
    add_region([](ParameterKind kind) { return kind != ParameterKind::norm; });
    add_region([](ParameterKind kind) { return kind == ParameterKind::norm; });
    regions_[0].compute_copy =
        Tensor::zeros(Shape{size - regions_[1].count}, compute_, MemoryCategory::parameters, device_);
  }
  for (ParameterRegion& region : regions_) {
    const DType dtype = region.compute_copy.defined() ? compute_ : DType::f32;
    region.gradients = Tensor::zeros(Shape{region.count}, dtype, MemoryCategory::gradients, device_);
  }
  master_ = Tensor::zeros(Shape{size}, DType::f32, MemoryCategory::parameters, device_);
}

void FlatParameters::move_parameters() {
  for (const FlatRange& range : ranges_) view_of(master_, range).copy_from(range.parameter.tensor);
  refresh_compute_copy();
  size_t next = 0;
  model_.rebind_parameters([&](const NamedTensor& parameter) {
    FlatRange& range = ranges_[next++];
    const ParameterRegion& region = region_of(range);
    Tensor view = view_of(master_, range);
    if (region.compute_copy.defined()) {
      view = region.compute_copy.narrow(0, range.offset - region.offset, range.count).view(parameter.tensor.shape());
    }
    view.set_autograd(parameter.tensor.autograd());
    set_grad_memory(view, gradient_of(range));
    range.parameter.tensor = view;
    return view;
  });
}

const ParameterRegion& FlatParameters::region_of(const FlatRange& range) const {
  return range.offset < regions_.front().count || regions_.size() == 1 ? regions_.front() : regions_.back();
}

Tensor FlatParameters::gradient_of(const FlatRange& range) const {
  const ParameterRegion& region = region_of(range);
  return region.gradients.narrow(0, range.offset - region.offset, range.count).view(range.parameter.tensor.shape());
}

void FlatParameters::refresh_compute_copy() {
  for (const ParameterRegion& region : regions_) {
    if (!region.compute_copy.defined()) continue;
    region.compute_copy.copy_from(cast(master_.narrow(0, region.offset, region.count), compute_));
  }
}

std::vector<NamedTensor> FlatParameters::gradient_views() const {
  std::vector<NamedTensor> found;
  for (const FlatRange& range : ranges_) {
    NamedTensor named = range.parameter;
    named.tensor = gradient_of(range);
    found.push_back(std::move(named));
  }
  return found;
}

std::vector<NamedTensor> FlatParameters::model_tensors() const {
  std::vector<NamedTensor> all = views(master_);
  const std::vector<NamedTensor> buffers = model_.buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

void FlatParameters::move_buffers() {
  int64_t size = 0;
  for (const NamedTensor& buffer : model_.buffers()) {
    if (buffer.tensor.dtype() == DType::f32) size += aligned(buffer.tensor.numel());
  }
  statistics_ = Tensor::zeros(Shape{size}, DType::f32, MemoryCategory::parameters, device_);
  int64_t offset = 0;
  model_.rebind_buffers([&](const NamedTensor& buffer) {
    if (buffer.tensor.dtype() != DType::f32) {
      counters_.push_back(buffer);
      return buffer.tensor;
    }
    const int64_t count = buffer.tensor.numel();
    const Tensor view = statistics_.narrow(0, offset, count).view(buffer.tensor.shape());
    offset += aligned(count);
    view.copy_from(buffer.tensor);
    return view;
  });
}

Tensor FlatParameters::statistics_like(const Tensor& of_model, const Tensor& buffer) const {
  const int64_t offset = (of_model.raw() - statistics_.raw()) / static_cast<int64_t>(sizeof(float));
  return buffer.narrow(0, offset, of_model.numel()).view(of_model.shape());
}

int64_t FlatParameters::parameter_count() const {
  int64_t count = 0;
  for (const FlatRange& range : ranges_) count += range.count;
  return count;
}

void FlatParameters::clear_gradients() {
  for (const FlatRange& range : ranges_) clear_grad(range.parameter.tensor);
}

void FlatParameters::fill_missing_gradients() {
  for (const FlatRange& range : ranges_) {
    if (!grad_of(range.parameter.tensor).defined()) gradient_of(range).fill(0);
  }
}

Tensor FlatParameters::like_master(MemoryCategory category) const {
  return Tensor::zeros(master_.shape(), DType::f32, category, device_);
}

std::vector<NamedTensor> FlatParameters::views(const Tensor& buffer) const {
  std::vector<NamedTensor> found;
  for (const FlatRange& range : ranges_) {
    NamedTensor named = range.parameter;
    named.tensor = view_of(buffer, range);
    found.push_back(std::move(named));
  }
  return found;
}

}  // namespace engine
