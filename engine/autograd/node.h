#pragma once
// The tape: what an operation leaves behind so that gradients can flow back through it.
//
// An op that has an input with requires_grad() creates one Node per call through record(). The node keeps the inputs'
// autograd state and a function object with just what its backward reads. The tape is the graph of nodes; backward()
// (engine/autograd/backward.h) runs it once, newest first, and frees each node's saved tensors as it goes.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/tensor.h"

namespace engine {

class Node;

/// Autograd state of a tensor, shared by all handles of it. A leaf (no producer) collects its gradient here.
struct AutogradMeta {
  bool requires_grad = false;
  std::shared_ptr<Node> producer;  // null for leaves
  int output_index = 0;            // which output of the producer

  // Leaves only. The gradient's memory is kept from step to step; grad_valid says whether it holds a gradient. The
  // first gradient after it was cleared overwrites, further ones add.
  Tensor grad;
  bool grad_valid = false;
  std::vector<std::function<void()>> ready_hooks;
};

/// What a backward function works on: gradients of its outputs in, gradients of its inputs out.
class Gradients {
 public:
  Gradients(Node& node, std::vector<Tensor> outputs);

  /// The gradient of an output; undefined where nothing flowed back into it.
  const Tensor& output(int index) const;
  /// The same, given away, so that its memory may be reused where owns_alone() holds.
  Tensor take_output(int index);
  /// Whether the gradient of an input is wanted.
  bool wanted(int index) const;
  /// Where the gradient of an input should be written: the leaf's own memory where it may be overwritten now, else new
  /// memory on the device of the outputs' gradients. Give the tensor to set() when done.
  Tensor target(int index, const Shape& shape, DType dtype);
  /// Hands over the gradient of an input.
  void set(int index, Tensor gradient);

  std::vector<Tensor>& inputs() { return inputs_; }

 private:
  Node& node_;
  Device device_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> inputs_;
};

using BackwardFunction = std::function<void(Gradients&)>;

/// One operation on the tape.
class Node {
 public:
  Node(const char* name, std::vector<std::shared_ptr<AutogradMeta>> inputs, int outputs, BackwardFunction backward);

  const char* name() const { return name_; }
  /// Null entries need no gradient.
  const std::vector<std::shared_ptr<AutogradMeta>>& inputs() const { return inputs_; }
  int outputs() const { return outputs_; }
  /// Later nodes have larger numbers; an order in which all users of a node come before it.
  uint64_t sequence() const { return sequence_; }
  /// Throws engine::Error where the node has been released: a graph can be used once.
  void run(Gradients& gradients);
  /// Frees saved tensors and the links to the inputs.
  void release();

 private:
  const char* name_;
  std::vector<std::shared_ptr<AutogradMeta>> inputs_;
  int outputs_;
  uint64_t sequence_;
  BackwardFunction backward_;
};

/// Whether operations are recorded by this thread; on by default.
bool grad_enabled();

/// Turns recording by this thread on or off for its lifetime.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled);
  ~GradModeGuard();
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool before_;
};

/// Off, for evaluation and updates of parameters.
class NoGradGuard : public GradModeGuard {
 public:
  NoGradGuard() : GradModeGuard(false) {}
};

/// Collects the leaves that operations of this thread read while it lives, recorded or not; each once, in the order of
/// their first use.
class LeafTrace {
 public:
  LeafTrace();
  ~LeafTrace();
  LeafTrace(const LeafTrace&) = delete;
  LeafTrace& operator=(const LeafTrace&) = delete;
  const std::vector<std::shared_ptr<AutogradMeta>>& leaves() const { return leaves_; }

 private:
  friend bool should_record(std::initializer_list<const Tensor*> inputs);
  void see(const Tensor& input);

  LeafTrace* before_;
  std::vector<std::shared_ptr<AutogradMeta>> leaves_;
};

/// Whether an op must record: recording is on and an input requires a gradient. Undefined inputs count as none.
bool should_record(std::initializer_list<const Tensor*> inputs);

/// Puts a node on the tape and marks the outputs as its results. Call only where should_record() holds.
void record(const char* name, std::initializer_list<const Tensor*> inputs, std::initializer_list<Tensor*> outputs,
            BackwardFunction backward);
/// The same for inputs by their autograd state, null where no gradient is wanted.
void record(const char* name, std::vector<std::shared_ptr<AutogradMeta>> inputs, std::vector<Tensor>& outputs,
            BackwardFunction backward);

}  // namespace engine
