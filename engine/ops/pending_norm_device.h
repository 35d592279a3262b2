#pragma once
// Batch norms in pieces, on accelerators, in training: their statistics come from the epilogue of the convolution
// before them, and whoever reads the result applies them. So what is applied need not be stored (conv_forms.h says
// where).

#include "engine/ops/batch_norm.h"

namespace engine {

/// Sums of a convolution's result over n, h and w, [k] f32 each; undefined where its form has no such epilogue.
struct ConvSums {
  Tensor sum{}, sum_of_squares{};
  bool defined() const { return sum.defined(); }
};

/// A batch norm whose statistics are known and which is still to be applied: x * scale + offset, per channel. x, weight
/// and bias carry their autograd state; whoever applies the norm differentiates through its statistics, too.
struct PendingNorm {
  Tensor x{};                                  // [..., c] f32, f16 or bf16; undefined: there is no norm
  Tensor weight{}, bias{};                     // [c] f32
  Tensor mean{}, invstd{}, scale{}, offset{};  // [c] f32
  Tensor stored_scale{}, stored_offset{};      // [c], rounded to x's type
  bool defined() const { return x.defined(); }
  PendingNorm detached() const;
};

/// What is added to a norm at the end of a residual block: nothing, a tensor, or another norm.
struct Shortcut {
  Tensor tensor{};
  PendingNorm norm{};
  bool defined() const { return tensor.defined() || norm.defined(); }
  /// The tensor, or what its norm normalises.
  const Tensor& raw() const { return norm.defined() ? norm.x : tensor; }
  Shortcut detached() const;
};

/// What a layer hands to the next one: a tensor, or relu(norm + shortcut), which nobody has computed yet.
struct Activation {
  Tensor stored{};
  PendingNorm norm{};
  Shortcut shortcut{};
  const Tensor& raw() const { return stored.defined() ? stored : norm.x; }
};

/// The norm of x from the sums of x; moves the running statistics where options.tracked. Throws what batch_norm throws
/// for shapes that do not fit.
PendingNorm pending_norm(const Tensor& x, const ConvSums& sums, const BatchNormState& state,
                         const BatchNormOptions& options);

/// norm(x) + shortcut, with `relu` max(that, 0): a tensor like x. The tape keeps x, the shortcut's norm's x, the
/// statistics and, with ReLU behind a shortcut, a bit a value.
Tensor apply_norm(const PendingNorm& norm, bool relu, const Shortcut& shortcut = {});

/// The tensor of an activation.
Tensor computed(const Activation& activation);

/// Gradients of apply_norm() without a norm as its shortcut. Tensors are overwritten; all on one device.
struct NormGradient {
  Tensor grad_y{};                    // like x
  bool relu = false;                  // behind the norm
  Tensor mask{};                      // of the ReLU, a bit a value; undefined: computed again from x
  Tensor grad_x{};                    // like x; may be x or grad_y
  Tensor grad_residual{};             // like x, the masked grad_y; may be grad_y; undefined where not wanted
  Tensor grad_weight{}, grad_bias{};  // [c] f32
};
void norm_backward(const PendingNorm& norm, const NormGradient& gradient);

}  // namespace engine
