#include "engine/autograd/node.h"

#include <algorithm>
#include <atomic>

#include "engine/core/error.h"

namespace engine {
namespace {

thread_local bool recording = true;
thread_local LeafTrace* leaf_trace = nullptr;
std::atomic<uint64_t> next_sequence{1};

size_t at(int index) { return static_cast<size_t>(index); }

bool needs_gradient(const Tensor& tensor) {
  return tensor.defined() && tensor.autograd() && tensor.autograd()->requires_grad;
}

void mark_as_result(Tensor& output, const std::shared_ptr<Node>& node, int index) {
  auto meta = std::make_shared<AutogradMeta>();
  meta->requires_grad = true;
  meta->producer = node;
  meta->output_index = index;
  output.set_autograd(std::move(meta));
}

}  // namespace

Gradients::Gradients(Node& node, std::vector<Tensor> outputs)
    : node_(node), outputs_(std::move(outputs)), inputs_(node.inputs().size()) {
  const auto first = std::find_if(outputs_.begin(), outputs_.end(), [](const Tensor& t) { return t.defined(); });
  if (first != outputs_.end()) device_ = first->device();
}

const Tensor& Gradients::output(int index) const { return outputs_.at(at(index)); }

Tensor Gradients::take_output(int index) { return std::move(outputs_.at(at(index))); }

bool Gradients::wanted(int index) const { return node_.inputs().at(at(index)) != nullptr; }

Tensor Gradients::target(int index, const Shape& shape, DType dtype) {
  const auto& meta = node_.inputs().at(at(index));
  // A leaf that is an input twice has its memory for one of the two gradients only.
  const bool first_use =
      std::find(node_.inputs().begin(), node_.inputs().end(), meta) == node_.inputs().begin() + index;
  if (meta && first_use && !meta->producer && meta->grad.defined() && !meta->grad_valid &&
      meta->grad.shape() == shape) {
    return meta->grad;
  }
  return Tensor::empty(shape, dtype, MemoryCategory::activations, device_);
}

void Gradients::set(int index, Tensor gradient) { inputs_.at(at(index)) = std::move(gradient); }

Node::Node(const char* name, std::vector<std::shared_ptr<AutogradMeta>> inputs, int outputs, BackwardFunction backward)
    : name_(name),
      inputs_(std::move(inputs)),
      outputs_(outputs),
      sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      backward_(std::move(backward)) {}

void Node::run(Gradients& gradients) {
  ENGINE_CHECK(backward_ != nullptr, "[{}] backward: the graph has been used already; run the forward pass again",
               name_);
  backward_(gradients);
}

void Node::release() {
  backward_ = nullptr;
  inputs_.clear();
}

bool grad_enabled() { return recording; }

GradModeGuard::GradModeGuard(bool enabled) : before_(recording) { recording = enabled; }
GradModeGuard::~GradModeGuard() { recording = before_; }

LeafTrace::LeafTrace() : before_(leaf_trace) { leaf_trace = this; }
LeafTrace::~LeafTrace() { leaf_trace = before_; }

void LeafTrace::see(const Tensor& input) {
  if (!needs_gradient(input) || input.autograd()->producer) return;
  if (std::find(leaves_.begin(), leaves_.end(), input.autograd()) == leaves_.end()) leaves_.push_back(input.autograd());
}

bool should_record(std::initializer_list<const Tensor*> inputs) {
  if (leaf_trace != nullptr) {
    for (const Tensor* input : inputs) leaf_trace->see(*input);
  }
  if (!recording) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor* input) { return needs_gradient(*input); });
}

void record(const char* name, std::initializer_list<const Tensor*> inputs, std::initializer_list<Tensor*> outputs,
            BackwardFunction backward) {
  std::vector<std::shared_ptr<AutogradMeta>> metas;
  for (const Tensor* input : inputs) metas.push_back(needs_gradient(*input) ? input->autograd() : nullptr);
  const auto node =
      std::make_shared<Node>(name, std::move(metas), static_cast<int>(outputs.size()), std::move(backward));
  int index = 0;
  for (Tensor* output : outputs) mark_as_result(*output, node, index++);
}

void record(const char* name, std::vector<std::shared_ptr<AutogradMeta>> inputs, std::vector<Tensor>& outputs,
            BackwardFunction backward) {
  const auto node =
      std::make_shared<Node>(name, std::move(inputs), static_cast<int>(outputs.size()), std::move(backward));
  int index = 0;
  for (Tensor& output : outputs) mark_as_result(output, node, index++);
}

}  // namespace engine
