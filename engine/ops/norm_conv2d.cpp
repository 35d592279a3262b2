#include "engine/ops/norm_conv2d.h"

#include <optional>
#include <utility>

#include "engine/autograd/node.h"
#include "engine/core/error.h"
#include "engine/ops/conv2d_device.h"
#include "engine/ops/device_path.h"
#include "kernels/batch_norm/batch_norm_pieces_cuda.h"

namespace engine {
namespace {

using kernels::Conv2dShape;
using kernels::ConvBuffers;
using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvPrologue;

/// Inputs of the node. Of a stored input there is x; the shortcut's are those of its norm, or the tensor and nothing.
enum Input { kX, kGamma, kBeta, kShortcut, kShortcutGamma, kShortcutBeta, kWeight };

struct Saved {
  Activation input;
  Tensor read;  // what the convolution read; undefined where weight gradients compute it again
  Tensor weight;
  Conv2dShape shape;
  ConvForms forms;
  bool ends_block;  // the node's outputs are the activation and y, else y alone
};

kernels::ConvPlanKey key_of(const Tensor& like, const Conv2dShape& shape, ConvDirection direction,
                            const ConvForms& forms) {
  return {.shape = shape,
          .direction = direction,
          .type = element_type_of(like.dtype(), "conv2d"),
          .fusion = forms.of(direction)};
}

void list_prologue(const Activation& input, ConvBuffers& buffers) {
  buffers.x = input.norm.x.raw();
  buffers.scale = input.norm.stored_scale.raw();
  buffers.bias = input.norm.stored_offset.raw();
  const Shortcut& shortcut = input.shortcut;
  if (!shortcut.defined()) return;
  buffers.residual = shortcut.raw().raw();
  if (!shortcut.norm.defined()) return;
  buffers.residual_scale = shortcut.norm.stored_scale.raw();
  buffers.residual_bias = shortcut.norm.stored_offset.raw();
}

/// What the epilogue of a data gradient leaves for a norm.
struct NormSums {
  Tensor grad_gamma, grad_beta, scale_grad, scale_x, offset;

  NormSums(const PendingNorm& norm, int first_input, Gradients& gradients)
      : grad_gamma(gradients.target(first_input + 1, norm.weight.shape(), DType::f32)),
        grad_beta(gradients.target(first_input + 2, norm.weight.shape(), DType::f32)) {
    const Tensor vectors = norm.x.new_empty({3, norm.weight.numel()}, DType::f32);
    int64_t row = 0;
    for (Tensor* one : {&scale_grad, &scale_x, &offset}) *one = vectors.select(0, row++);
  }
  ConvBuffers::Norm buffers(const PendingNorm& norm) const {
    return {.x = norm.x.raw(),
            .mean = norm.mean.data<float>(),
            .invstd = norm.invstd.data<float>(),
            .gamma = norm.weight.data<float>(),
            .beta = norm.bias.data<float>(),
            .grad_gamma = grad_gamma.data<float>(),
            .grad_beta = grad_beta.data<float>(),
            .scale_grad = scale_grad.data<float>(),
            .scale_x = scale_x.data<float>(),
            .offset = offset.data<float>()};
  }
  /// grad_x, which may be the memory of x or of grad: the gradient of the norm's x from that of its result.
  void apply(const PendingNorm& norm, const Tensor& grad, const Tensor& grad_x) const {
    dispatch_device(grad.dtype(), "conv2d", [&]<typename T>() {
      const int64_t channels = norm.weight.numel();
      kernels::batch_norm_backward_apply_cuda<T>({.rows = grad.numel() / channels,
                                                  .channels = channels,
                                                  .g = grad.data<T>(),
                                                  .x = norm.x.data<T>(),
                                                  .mean = nullptr,
                                                  .g_scale = scale_grad.data<float>(),
                                                  .x_scale = scale_x.data<float>(),
                                                  .offset = offset.data<float>(),
                                                  .grad_x = grad_x.data<T>()},
                                                 stream_of(grad));
    });
  }
  void hand_over(int first_input, Gradients& gradients) {
    gradients.set(first_input + 1, std::move(grad_gamma));
    gradients.set(first_input + 2, std::move(grad_beta));
  }
};

void backward_weights(const Saved& saved, const Tensor& grad_y, Gradients& gradients) {
  if (!gradients.wanted(kWeight)) return;
  Tensor grad_weight = gradients.target(kWeight, saved.weight.shape(), saved.weight.dtype());
  ConvBuffers buffers{.grad_y = grad_y.raw(), .grad_weight = grad_weight.raw()};
  if (saved.read.defined()) {
    buffers.x = saved.read.raw();
  } else {
    list_prologue(saved.input, buffers);
  }
  run_conv_plan(grad_y, key_of(grad_y, saved.shape, ConvDirection::backward_weights, saved.forms), buffers);
  gradients.set(kWeight, std::move(grad_weight));
}

/// Through the convolution, then through ReLU and norm by kernels of their own.
void backward_apart(const Saved& saved, const Tensor& grad_y, Gradients& gradients) {
  const Shape image{saved.shape.n, saved.shape.h, saved.shape.w, saved.shape.c};
  const bool normed = saved.input.norm.defined();
  Tensor grad_x = normed ? grad_y.new_empty(image, grad_y.dtype()) : gradients.target(kX, image, grad_y.dtype());
  run_conv_plan(grad_y, key_of(grad_y, saved.shape, ConvDirection::backward_data, saved.forms),
                {.weight = saved.weight.raw(), .grad_y = grad_y.raw(), .grad_x = grad_x.raw()});
  if (normed) {
    const PendingNorm& norm = saved.input.norm;
    Tensor grad_gamma = gradients.target(kGamma, norm.weight.shape(), DType::f32);
    Tensor grad_beta = gradients.target(kBeta, norm.weight.shape(), DType::f32);
    norm_backward(
        norm, {.grad_y = grad_x, .relu = true, .grad_x = grad_x, .grad_weight = grad_gamma, .grad_bias = grad_beta});
    gradients.set(kGamma, std::move(grad_gamma));
    gradients.set(kBeta, std::move(grad_beta));
  }
  gradients.set(kX, std::move(grad_x));
}

Tensor zeros_like(const Tensor& tensor) {
  const Tensor zeros = tensor.new_empty(tensor.shape(), tensor.dtype());
  zeros.fill(0);
  return zeros;
}

/// Through convolution, addition of the shortcut's gradient, and ReLU in one plan, which sums up what the norms need.
void backward_fused(const Saved& saved, const Tensor& grad_y, Gradients& gradients) {
  const auto& [stored, norm, shortcut] = saved.input;
  const bool dual = shortcut.norm.defined();
  NormSums sums(norm, kX, gradients);
  std::optional<NormSums> shortcut_sums;
  if (dual) shortcut_sums.emplace(shortcut.norm, kShortcut, gradients);
  Tensor passed, grad = norm.x.new_empty(norm.x.shape(), norm.x.dtype());
  ConvBuffers buffers{.weight = saved.weight.raw(), .grad_y = grad_y.raw(), .grad_x = grad.raw()};
  buffers.norm = sums.buffers(norm);
  if (saved.ends_block) {
    passed = gradients.take_output(0);
    passed = passed.defined() ? passed.contiguous() : zeros_like(norm.x);
    buffers.shortcut_grad = passed.raw();
    buffers.residual = shortcut.raw().raw();
  }
  if (dual) buffers.residual_norm = shortcut_sums->buffers(shortcut.norm);
  run_conv_plan(grad_y, key_of(grad_y, saved.shape, ConvDirection::backward_data, saved.forms), buffers);
  passed = Tensor();
  sums.hand_over(kX, gradients);
  if (!saved.ends_block) {
    sums.apply(norm, grad, grad);
    return gradients.set(kX, std::move(grad));
  }
  Tensor grad_x = norm.x.owns_alone() ? norm.x : norm.x.new_empty(norm.x.shape(), norm.x.dtype());
  sums.apply(norm, grad, grad_x);
  gradients.set(kX, std::move(grad_x));
  if (dual) {
    shortcut_sums->apply(shortcut.norm, grad, grad);
    shortcut_sums->hand_over(kShortcut, gradients);
  }
  gradients.set(kShortcut, std::move(grad));
}

bool any_wanted(const Gradients& gradients, int end) {
  for (int input = 0; input < end; ++input) {
    if (gradients.wanted(input)) return true;
  }
  return false;
}

void backward(Saved& saved, Gradients& gradients) {
  Tensor grad_y = gradients.take_output(saved.ends_block ? 1 : 0);
  if (!grad_y.defined()) {
    const Conv2dShape& s = saved.shape;
    grad_y = saved.weight.new_empty(Shape{s.n, s.out_h(), s.out_w(), s.k}, saved.weight.dtype());
    grad_y.fill(0);
  }
  grad_y = grad_y.contiguous();
  backward_weights(saved, grad_y, gradients);
  if (!any_wanted(gradients, kWeight)) return;
  saved.read = Tensor();  // its memory may serve the gradient
  if (saved.forms.backward_data.epilogue == ConvEpilogue::none) return backward_apart(saved, grad_y, gradients);
  backward_fused(saved, grad_y, gradients);
}

void check_forms(const Activation& input, const ConvForms& forms) {
  const bool pending = !input.stored.defined(), ends = pending && input.shortcut.defined();
  ENGINE_CHECK(pending == forms.joined(), "[conv2d] forms: got {} and {} for an input that {}, expected others",
               conv_fusion_name(forms.forward), conv_fusion_name(forms.backward_data),
               pending ? "is to be computed" : "is a tensor");
  ENGINE_CHECK(!ends || forms.backward_data.epilogue != ConvEpilogue::none,
               "[conv2d] forms: got {} backward for the end of a block, expected its gradient's form",
               conv_fusion_name(forms.backward_data));
}

ConvSums new_sums(const Tensor& like, int64_t channels) {
  const Tensor both = like.new_empty({2, channels}, DType::f32);
  return {.sum = both.select(0, 0), .sum_of_squares = both.select(0, 1)};
}

}  // namespace

ConvSite conv_site(const Activation& input, const Tensor& weight, const Conv2dOptions& options) {
  const ConvInput kind = input.stored.defined()          ? ConvInput::stored
                         : !input.shortcut.defined()     ? ConvInput::activation
                         : input.shortcut.norm.defined() ? ConvInput::dual_block_end
                                                         : ConvInput::block_end;
  return {.shape = conv2d_shape(input.raw(), weight, Tensor(), options),
          .type = element_type_of(weight.dtype(), "conv2d"),
          .input = kind};
}

NormConv2d norm_conv2d(const Activation& input, const Tensor& weight, const Conv2dOptions& options,
                       const ConvForms& forms) {
  const Tensor& raw = input.raw();
  const Conv2dShape shape = conv2d_shape(raw, weight, Tensor(), options);
  check_forms(input, forms);
  const PendingNorm &norm = input.norm, &other = input.shortcut.norm;
  const bool ends_block = norm.defined() && input.shortcut.defined();
  const ConvPrologue prologue = forms.forward.prologue;

  NormConv2d result{.y = raw.new_empty({shape.n, shape.out_h(), shape.out_w(), shape.k}, raw.dtype()),
                    .sums = {},
                    .activated = input.stored};
  ConvBuffers buffers{.weight = weight.raw(), .y = result.y.raw()};
  Tensor read = input.stored;
  if (prologue != ConvPrologue::none) {
    list_prologue(input, buffers);
    if (ends_block) read = raw.new_empty(raw.shape(), raw.dtype());
    buffers.activated = ends_block ? read.raw() : nullptr;
  } else {
    const NoGradGuard apart;
    read = computed(input).detach();
    buffers.x = read.raw();
  }
  if (forms.forward.epilogue == ConvEpilogue::statistics) {
    result.sums = new_sums(raw, shape.k);
    buffers.sum = result.sums.sum.data<float>();
    buffers.sum_of_squares = result.sums.sum_of_squares.data<float>();
  }
  run_conv_plan(raw, key_of(raw, shape, ConvDirection::forward, forms), buffers);
  if (ends_block) result.activated = read.detach();

  const Tensor& added = input.shortcut.raw();
  if (!should_record({&raw, &norm.weight, &norm.bias, &added, &other.weight, &other.bias, &weight})) return result;
  Activation kept{.stored = {}, .norm = norm.detached(), .shortcut = input.shortcut.detached()};
  const auto run = [saved = Saved{std::move(kept), read.defined() ? read.detach() : Tensor(), weight.detach(), shape,
                                  forms, ends_block}](Gradients& gradients) mutable { backward(saved, gradients); };
  const auto put = [&](std::initializer_list<Tensor*> outputs) {
    record("norm_conv2d", {&raw, &norm.weight, &norm.bias, &added, &other.weight, &other.bias, &weight}, outputs, run);
  };
  ends_block ? put({&result.activated, &result.y}) : put({&result.y});
  return result;
}

}  // namespace engine
