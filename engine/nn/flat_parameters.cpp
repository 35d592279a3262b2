#include "engine/nn/flat_parameters.h"

#include "engine/autograd/backward.h"
#include "engine/core/error.h"

namespace engine {
namespace {

int64_t aligned(int64_t count) {
  return (count + FlatParameters::kAlignment - 1) / FlatParameters::kAlignment * FlatParameters::kAlignment;
}

Tensor view_of(const Tensor& buffer, const FlatRange& range) {
  return buffer.narrow(0, range.offset, range.count).view(range.parameter.tensor.shape());
}

}  // namespace

FlatParameters::FlatParameters(Module& model) : model_(model) {
  int64_t size = 0;
  for (NamedTensor& parameter : model.parameters()) {
    const int64_t count = parameter.tensor.numel();
    ranges_.push_back({std::move(parameter), size, count});
    size += aligned(count);
  }
  master_ = Tensor::zeros(Shape{size}, DType::f32, MemoryCategory::parameters);
  gradients_ = Tensor::zeros(Shape{size}, DType::f32, MemoryCategory::gradients);
  size_t next = 0;
  model_.rebind_parameters([&](const NamedTensor& parameter) {
    FlatRange& range = ranges_[next++];
    Tensor view = view_of(master_, range);
    view.copy_from(parameter.tensor);
    Tensor leaf = parameter.tensor;
    set_grad_memory(leaf, view_of(gradients_, range));
    range.parameter.tensor = view;
    range.parameter.tensor.set_autograd(leaf.autograd());
    return view;
  });
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
    if (!grad_of(range.parameter.tensor).defined()) view_of(gradients_, range).fill(0);
  }
}

Tensor FlatParameters::like_master(MemoryCategory category) const {
  return Tensor::zeros(master_.shape(), DType::f32, category);
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
