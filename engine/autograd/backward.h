#pragma once
// Running the tape, and the gradient side of leaf tensors.

#include <functional>
#include <vector>

#include "engine/core/tensor.h"

namespace engine {

/// Marks a leaf: gradients will be collected for it. Throws for results of recorded operations and for integer types.
void set_requires_grad(Tensor& leaf, bool requires_grad = true);
bool requires_grad(const Tensor& tensor);

/// The leaf's gradient; undefined before the first backward() and after clear_grad().
Tensor grad_of(const Tensor& leaf);
/// Gives a leaf the memory that its gradient is written to (a view into a flat buffer): the leaf's shape and type.
void set_grad_memory(Tensor& leaf, Tensor memory);
/// Forgets the gradient; the memory stays, and the next gradient overwrites it.
void clear_grad(const Tensor& leaf);
/// Calls `hook` each time the gradient of the leaf is complete for one backward(), while earlier layers still compute.
/// Data parallelism sends gradients from here.
void add_ready_hook(const Tensor& leaf, std::function<void()> hook);

/// Computes the gradients of `root`, a tensor of one element (or with `grad_root` of its shape as the upstream
/// gradient), for all leaves it depends on, and adds them to what the leaves hold. The graph is freed as it is used.
/// Throws engine::Error where root does not require a gradient or the graph was used before.
void backward(const Tensor& root, const Tensor& grad_root = Tensor());
/// The same for several roots at once, each with an upstream gradient of its shape, type and device. Called by the
/// backward of a node, it continues the pass that runs the node: hooks of leaves wait for their uses outside.
void backward(std::vector<Tensor> roots, std::vector<Tensor> grad_roots);

}  // namespace engine
