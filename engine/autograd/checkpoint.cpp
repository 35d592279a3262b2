#include "engine/autograd/checkpoint.h"

#include <utility>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/core/error.h"

namespace engine {
namespace {

thread_local bool computing_again = false;

class RecomputationGuard {
 public:
  RecomputationGuard() : before_(std::exchange(computing_again, true)) {}
  ~RecomputationGuard() { computing_again = before_; }
  RecomputationGuard(const RecomputationGuard&) = delete;
  RecomputationGuard& operator=(const RecomputationGuard&) = delete;

 private:
  bool before_;
  GradModeGuard recording_{true};
};

struct Form {
  Shape shape;
  DType dtype;
  bool operator==(const Form&) const = default;
};

std::vector<Form> forms_of(const std::vector<Tensor>& tensors) {
  std::vector<Form> forms;
  for (const Tensor& tensor : tensors) forms.push_back({tensor.shape(), tensor.dtype()});
  return forms;
}

std::vector<Tensor> detached(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.defined() ? tensor.detach() : Tensor());
  return result;
}

struct Segment {
  CheckpointFunction function;
  std::vector<Tensor> inputs;
  std::vector<Form> outputs;

  /// The inputs as results of a node that puts their gradients into `grad_inputs`.
  std::vector<Tensor> take_inputs(const Gradients& gradients, std::vector<Tensor>& grad_inputs) {
    const auto source = std::make_shared<Node>("checkpoint_inputs", std::vector<std::shared_ptr<AutogradMeta>>{},
                                               static_cast<int>(inputs.size()), [&grad_inputs](Gradients& arrived) {
                                                 for (size_t i = 0; i < grad_inputs.size(); ++i) {
                                                   grad_inputs[i] = arrived.take_output(static_cast<int>(i));
                                                 }
                                               });
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int index = static_cast<int>(i);
      if (!inputs[i].defined() || !gradients.wanted(index)) continue;
      auto meta = std::make_shared<AutogradMeta>();
      meta->requires_grad = true;
      meta->producer = source;
      meta->output_index = index;
      inputs[i].set_autograd(std::move(meta));
    }
    return std::move(inputs);
  }

  std::vector<Tensor> compute_again(std::vector<Tensor> with_source) const {
    const RecomputationGuard again;
    std::vector<Tensor> results = function(with_source);
    ENGINE_CHECK(forms_of(results) == outputs,
                 "[checkpoint] backward: the function gave other results than in the forward pass");
    return results;
  }

  void backward(Gradients& gradients) {
    std::vector<Tensor> grad_inputs(inputs.size()), roots, grad_roots;
    std::vector<Tensor> results = compute_again(take_inputs(gradients, grad_inputs));
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor gradient = gradients.take_output(static_cast<int>(i));
      if (!gradient.defined() || !requires_grad(results[i])) continue;
      roots.push_back(std::move(results[i]));
      grad_roots.push_back(gradient.contiguous());
    }
    results.clear();
    engine::backward(std::move(roots), std::move(grad_roots));
    for (size_t i = 0; i < grad_inputs.size(); ++i) gradients.set(static_cast<int>(i), std::move(grad_inputs[i]));
  }
};

}  // namespace

bool recomputing() { return computing_again; }

std::vector<Tensor> checkpoint(const CheckpointFunction& function, const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return function(inputs);
  std::vector<std::shared_ptr<AutogradMeta>> needed;
  bool wanted = false;
  for (const Tensor& input : inputs) {
    const bool this_one = input.defined() && requires_grad(input);
    needed.push_back(this_one ? input.autograd() : nullptr);
    wanted = wanted || this_one;
  }
  Segment segment{function, detached(inputs), {}};
  std::vector<Tensor> outputs;
  {
    const LeafTrace trace;
    const NoGradGuard no_grad;
    outputs = detached(function(segment.inputs));  // a result may be an input
    needed.insert(needed.end(), trace.leaves().begin(), trace.leaves().end());
    wanted = wanted || !trace.leaves().empty();
  }
  if (!wanted) return outputs;
  segment.outputs = forms_of(outputs);
  record("checkpoint", std::move(needed), outputs,
         [segment = std::move(segment)](Gradients& gradients) mutable { segment.backward(gradients); });
  return outputs;
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& input) {
  const auto many = [function](const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{function(inputs.front())};
  };
  return checkpoint(many, {input}).front();
}

}  // namespace engine
