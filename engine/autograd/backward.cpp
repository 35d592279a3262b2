#include "engine/autograd/backward.h"

#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "engine/autograd/accumulate.h"
#include "engine/autograd/node.h"
#include "engine/core/error.h"

namespace engine {
namespace {

/// What backward() knows of the graph before it begins: how many gradients each leaf will be handed, so that its hooks
/// run right after the last one.
using LeafUses = std::unordered_map<AutogradMeta*, int>;

LeafUses count_leaf_uses(const std::vector<Tensor>& roots) {
  LeafUses uses;
  std::unordered_set<Node*> seen;
  std::vector<Node*> open;
  for (const Tensor& root : roots) {
    if (seen.insert(root.autograd()->producer.get()).second) open.push_back(root.autograd()->producer.get());
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (const auto& input : node->inputs()) {
      if (!input) continue;
      if (!input->producer) {
        ++uses[input.get()];
      } else if (seen.insert(input->producer.get()).second) {
        open.push_back(input->producer.get());
      }
    }
  }
  return uses;
}

void accumulate_leaf(AutogradMeta& leaf, const Tensor& gradient) {
  if (!leaf.grad.defined()) {
    // The memory may be shared with another input of the node (an add hands one gradient to both), so it is kept only
    // where nobody else has it.
    leaf.grad = gradient.owns_alone() ? gradient : gradient.clone(MemoryCategory::gradients);
  } else if (!leaf.grad_valid) {
    const bool written_in_place = gradient.raw() == leaf.grad.raw();
    if (!written_in_place) leaf.grad.copy_from(gradient.contiguous());
  } else {
    accumulate(leaf.grad, gradient);
  }
  leaf.grad_valid = true;
}

/// One call of backward(). A node's own backward may begin another one, whose leaves are used by the outer graph, too.
class BackwardPass {
 public:
  BackwardPass(const std::vector<Tensor>& roots, std::vector<Tensor> grad_roots)
      : outer_(current), leaf_uses_(count_leaf_uses(roots)) {
    for (size_t i = 0; i < roots.size(); ++i) {
      deliver(roots[i].autograd()->producer, roots[i].autograd()->output_index, std::move(grad_roots[i]));
    }
    current = this;
  }
  ~BackwardPass() { current = outer_; }
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  void run() {
    while (!queue_.empty()) {
      const std::shared_ptr<Node> node = queue_.top();
      queue_.pop();
      const auto pending = pending_.find(node.get());
      Gradients gradients(*node, std::move(pending->second));
      pending_.erase(pending);
      node->run(gradients);
      const auto inputs = node->inputs();
      node->release();
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i]) hand_on(inputs[i].get(), std::move(gradients.inputs()[i]));
      }
      settled_.clear();
    }
  }

 private:
  struct Older {
    bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
      return a->sequence() < b->sequence();
    }
  };

  void hand_on(AutogradMeta* input, Tensor gradient) {
    if (input->producer) {
      if (gradient.defined()) deliver(input->producer, input->output_index, std::move(gradient));
      return;
    }
    // An inner pass has given the leaf its gradient already.
    if (!gradient.defined() && settled_.erase(input) > 0) return;
    if (gradient.defined()) accumulate_leaf(*input, gradient);
    gradient = Tensor();
    leaf_used(input);
  }

  void leaf_used(AutogradMeta* leaf) {
    if (--leaf_uses_.at(leaf) > 0) return;
    if (outer_ != nullptr && outer_->leaf_uses_.contains(leaf)) {
      outer_->settled_.insert(leaf);
      return outer_->leaf_used(leaf);
    }
    if (!leaf->grad_valid) return;
    for (const auto& hook : leaf->ready_hooks) hook();
  }

  void deliver(const std::shared_ptr<Node>& node, int output, Tensor gradient) {
    const auto [entry, is_new] = pending_.try_emplace(node.get(), static_cast<size_t>(node->outputs()));
    if (is_new) queue_.push(node);
    Tensor& slot = entry->second.at(static_cast<size_t>(output));
    slot = slot.defined() ? accumulated(std::move(slot), gradient) : std::move(gradient);
  }

  static thread_local BackwardPass* current;

  BackwardPass* outer_;
  LeafUses leaf_uses_;
  std::unordered_set<AutogradMeta*> settled_;  // by inner passes, as far as the node that runs has them as inputs
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Older> queue_;
  std::unordered_map<Node*, std::vector<Tensor>> pending_;
};

thread_local BackwardPass* BackwardPass::current = nullptr;

Tensor ones_like(const Tensor& tensor) {
  const Tensor ones = tensor.new_empty(tensor.shape(), tensor.dtype());
  ones.fill(1);
  return ones;
}

AutogradMeta& leaf_meta(const Tensor& leaf, const char* what) {
  ENGINE_CHECK(leaf.autograd() && !leaf.autograd()->producer, "[autograd] {}: expected a leaf that requires a gradient",
               what);
  return *leaf.autograd();
}

}  // namespace

void set_requires_grad(Tensor& leaf, bool value) {
  ENGINE_CHECK(leaf.defined() && is_floating(leaf.dtype()), "[autograd] requires_grad: expected a tensor of floats");
  ENGINE_CHECK(!leaf.autograd() || !leaf.autograd()->producer,
               "[autograd] requires_grad: got the result of an operation, expected a leaf");
  if (!leaf.autograd()) leaf.set_autograd(std::make_shared<AutogradMeta>());
  leaf.autograd()->requires_grad = value;
}

bool requires_grad(const Tensor& tensor) { return tensor.autograd() && tensor.autograd()->requires_grad; }

Tensor grad_of(const Tensor& leaf) {
  const AutogradMeta& meta = leaf_meta(leaf, "grad_of");
  return meta.grad_valid ? meta.grad : Tensor();
}

void set_grad_memory(Tensor& leaf, Tensor memory) {
  AutogradMeta& meta = leaf_meta(leaf, "set_grad_memory");
  ENGINE_CHECK(memory.shape() == leaf.shape() && memory.dtype() == leaf.dtype(),
               "[autograd] set_grad_memory: got {}, expected {}", memory.shape().str(), leaf.shape().str());
  meta.grad = std::move(memory);
  meta.grad_valid = false;
}

void clear_grad(const Tensor& leaf) { leaf_meta(leaf, "clear_grad").grad_valid = false; }

void add_ready_hook(const Tensor& leaf, std::function<void()> hook) {
  leaf_meta(leaf, "add_ready_hook").ready_hooks.push_back(std::move(hook));
}

void backward(const Tensor& root, const Tensor& grad_root) {
  ENGINE_CHECK(requires_grad(root) && root.autograd()->producer,
               "[backward] root: expected the result of a recorded operation");
  ENGINE_CHECK(grad_root.defined() || root.numel() == 1,
               "[backward] root: got {}, expected one element or an upstream gradient", root.shape().str());
  const NoGradGuard no_grad;
  backward(std::vector<Tensor>{root}, {grad_root.defined() ? grad_root.detach() : ones_like(root)});
}

void backward(std::vector<Tensor> roots, std::vector<Tensor> grad_roots) {
  ENGINE_CHECK(roots.size() == grad_roots.size(), "[backward] grad_roots: got {}, expected {}", grad_roots.size(),
               roots.size());
  for (size_t i = 0; i < roots.size(); ++i) {
    const Tensor &root = roots[i], &grad = grad_roots[i];
    ENGINE_CHECK(requires_grad(root) && root.autograd()->producer,
                 "[backward] root: expected the result of a recorded operation");
    ENGINE_CHECK(grad.defined() && grad.shape() == root.shape() && grad.dtype() == root.dtype(),
                 "[backward] grad_root: got {}, expected {}", grad.defined() ? grad.shape().str() : "none",
                 root.shape().str());
    ENGINE_CHECK(grad.device() == root.device(), "[backward] grad_root: got a tensor on {}, expected one on {}",
                 name_of(grad.device()), name_of(root.device()));
  }
  const NoGradGuard no_grad;
  BackwardPass pass(roots, std::move(grad_roots));
  roots.clear();  // their memory may be free while the pass runs
  pass.run();
}

}  // namespace engine
