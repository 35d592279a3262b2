#include "engine/nn/module.h"

#include "engine/autograd/backward.h"
#include "engine/autograd/checkpoint.h"
#include "engine/autograd/node.h"
#include "engine/core/error.h"
#include "engine/ops/cast.h"

namespace engine {
namespace {

thread_local Module::OutputObserver output_observer;

}  // namespace

void Module::set_output_observer(OutputObserver observer) { output_observer = std::move(observer); }

Tensor Module::observed(Tensor output) const {
  if (output_observer) output_observer(*this, output);
  return output;
}

std::string Module::name_of(const Module& layer) const {
  for (const auto& [name, child] : children_) {
    if (child == &layer) return name;
    const std::string below = child->name_of(layer);
    if (!below.empty()) return name + "." + below;
  }
  return "";
}

Tensor Module::operator()(const Tensor& input) {
  if (!checkpointed_ || !training_) return forward(input);
  return checkpoint([this](const Tensor& x) { return forward(x); }, input);
}

std::vector<std::pair<std::string, Module*>> Module::blocks() const {
  std::vector<std::pair<std::string, Module*>> found;
  for (const auto& [name, child] : children_) {
    if (child->is_block()) found.emplace_back(name, child);
    for (const auto& [below, block] : child->blocks()) found.emplace_back(name + "." + below, block);
  }
  return found;
}

template <typename F>
void Module::visit(const std::string& prefix, std::vector<Slot> Module::*slots, F&& f) const {
  for (const Slot& slot : this->*slots) {
    NamedTensor named = slot.description;
    named.name = prefix + named.name;
    named.tensor = *slot.tensor;
    f(named, *slot.tensor);
  }
  for (const auto& [name, child] : children_) child->visit(prefix + name + ".", slots, f);
}

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> found;
  visit("", &Module::parameters_, [&](const NamedTensor& named, Tensor&) { found.push_back(named); });
  return found;
}

std::vector<NamedTensor> Module::buffers() const {
  std::vector<NamedTensor> found;
  visit("", &Module::buffers_, [&](const NamedTensor& named, Tensor&) { found.push_back(named); });
  return found;
}

void move_to(Module& model, Device device) {
  const auto moved = [device](const NamedTensor& named) {
    return is_floating(named.tensor.dtype()) ? named.tensor.detach().to(device) : named.tensor;
  };
  model.rebind_parameters(moved);
  model.rebind_buffers(moved);
}

Device device_of(const Module& model) {
  const std::vector<NamedTensor> parameters = model.parameters();
  return parameters.empty() ? Device::cpu() : parameters.front().tensor.device();
}

DType compute_dtype_of(const Module& model) {
  const std::vector<NamedTensor> parameters = model.parameters();
  return parameters.empty() ? DType::f32 : parameters.front().tensor.dtype();
}

void Module::set_training(bool training) {
  training_ = training;
  for (const auto& [name, child] : children_) child->set_training(training);
}

void Module::convert(DType dtype) {
  const auto convert_slot = [dtype](const NamedTensor&, Tensor& tensor) {
    if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) return;
    const bool is_leaf = requires_grad(tensor);
    tensor = cast(tensor.detach(), dtype);
    if (is_leaf) set_requires_grad(tensor);
  };
  visit("", &Module::parameters_, convert_slot);
  visit("", &Module::buffers_, convert_slot);
}

void Module::rebind_parameters(const std::function<Tensor(const NamedTensor&)>& new_memory) {
  visit("", &Module::parameters_, [&](const NamedTensor& named, Tensor& parameter) {
    Tensor fresh = new_memory(named);
    ENGINE_CHECK(fresh.shape() == parameter.shape() && is_floating(fresh.dtype()),
                 "[module] rebind {}: got {} {}, expected floats {}", named.name, engine::name_of(fresh.dtype()),
                 fresh.shape().str(), parameter.shape().str());
    fresh.set_autograd(parameter.autograd());
    parameter = std::move(fresh);
  });
}

void Module::rebind_buffers(const std::function<Tensor(const NamedTensor&)>& new_memory) {
  visit("", &Module::buffers_, [&](const NamedTensor& named, Tensor& buffer) {
    Tensor fresh = new_memory(named);
    ENGINE_CHECK(fresh.shape() == buffer.shape() && fresh.dtype() == buffer.dtype(),
                 "[module] rebind {}: got {}, expected {}", named.name, fresh.shape().str(), buffer.shape().str());
    buffer = std::move(fresh);
  });
}

void Module::register_parameter(NamedTensor description, Tensor& parameter) {
  set_requires_grad(parameter);
  parameters_.push_back({std::move(description), &parameter});
}

void Module::register_buffer(std::string name, Tensor& buffer) {
  NamedTensor description;
  description.name = std::move(name);
  buffers_.push_back({std::move(description), &buffer});
}

void Module::register_child(std::string name, Module& child) { children_.emplace_back(std::move(name), &child); }

}  // namespace engine
