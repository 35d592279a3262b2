#pragma once
// A convolution with what stands around it in a residual network: batch norm, addition and ReLU before it, the sums for
// the batch norm behind it. On accelerators, in training.

#include "engine/ops/conv2d.h"
#include "engine/ops/conv_forms.h"
#include "engine/ops/pending_norm_device.h"

namespace engine {

struct NormConv2d {
  Tensor y;          // [n, out_h, out_w, k]
  ConvSums sums;     // of y
  Tensor activated;  // the input as a tensor where it is one: stored, or the end of a block
};

/// What training_forms() decides on.
ConvSite conv_site(const Activation& input, const Tensor& weight, const Conv2dOptions& options);

/// conv2d(computed(input), weight) in the given forms, which training_forms() gives for this input; a pending input
/// takes forms that are joined(). Gradients flow to all tensors of the input, through the statistics of its norms, too.
/// The tape keeps the input's raw tensors, and the computed one only where no form computes it again. Throws
/// engine::Error "[conv2d] ..." for shapes that do not fit.
NormConv2d norm_conv2d(const Activation& input, const Tensor& weight, const Conv2dOptions& options,
                       const ConvForms& forms);

}  // namespace engine
