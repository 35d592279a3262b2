#include "kernels/conv2d/conv2d_emulated_forms.h"

#include <algorithm>
#include <vector>

#include "kernels/common/parallel.h"
#include "kernels/common/storage_floats.h"

namespace engine::kernels {
namespace {

constexpr int64_t kGrain = 1 << 14;

float relu(float value) { return value <= 0 ? 0.0F : value; }

/// x as the convolution sees it.
class Input {
 public:
  Input(const ConvPlanKey& key, const ConvBuffers& b)
      : x_(b.x, key.shape.x_numel(), key.type), result_(x_.data()), key_(key) {
    if (key.fusion.prologue != ConvPrologue::none) activate(b);
  }
  const float* data() const { return result_; }

 private:
  void activate(const ConvBuffers& b) {
    const ConvPrologue prologue = key_.fusion.prologue;
    const int64_t count = key_.shape.x_numel(), c = key_.shape.c;
    const FloatsIn scale(b.scale, c, key_.type), bias(b.bias, c, key_.type);
    const bool add = prologue != ConvPrologue::scale_bias_relu;
    const bool dual = prologue == ConvPrologue::dual_scale_bias_add_relu;
    const FloatsIn residual(b.residual, add ? count : 0, key_.type);
    const FloatsIn residual_scale(b.residual_scale, dual ? c : 0, key_.type);
    const FloatsIn residual_bias(b.residual_bias, dual ? c : 0, key_.type);
    // Without an `activated` to write, the values are rounded in memory of our own.
    own_.resize(static_cast<size_t>(count));
    void* target = add ? b.activated : own_.data();
    FloatsOut out(target, count, key_.type);
    float* values = out.data();
    parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t channel = i % c;
        float z = x_.data()[i] * scale.data()[channel] + bias.data()[channel];
        if (dual) {
          z += residual.data()[i] * residual_scale.data()[channel] + residual_bias.data()[channel];
        } else if (add) {
          z += residual.data()[i];
        }
        values[i] = relu(z);
      }
    });
    out.store();
    if (values != own_.data()) std::copy(values, values + count, own_.begin());
    result_ = own_.data();
  }

  FloatsIn x_;
  const float* result_;
  std::vector<float> own_;
  const ConvPlanKey& key_;
};

struct Two {
  double first, second;
};

/// f(index, channel) summed over the rows of [rows, channels].
template <typename F>
void channel_sums(int64_t rows, int64_t channels, F&& f, float* first, float* second) {
  parallel_for(channels, 16, [&](int64_t begin, int64_t end) {
    std::vector<Two> sums(static_cast<size_t>(end - begin), Two{0, 0});
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t channel = begin; channel < end; ++channel) {
        const auto [a, b] = f(row * channels + channel, channel);
        sums[static_cast<size_t>(channel - begin)].first += a;
        sums[static_cast<size_t>(channel - begin)].second += b;
      }
    }
    for (int64_t channel = begin; channel < end; ++channel) {
      first[channel] = static_cast<float>(sums[static_cast<size_t>(channel - begin)].first);
      second[channel] = static_cast<float>(sums[static_cast<size_t>(channel - begin)].second);
    }
  });
}
/// z = (x - mean) * invstd * gamma + beta
void add_normalised(const ConvBuffers::Norm& norm, const float* x, const Conv2dShape& shape, float* z) {
  parallel_for(shape.x_numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel = i % shape.c;
      z[i] += (x[i] - norm.mean[channel]) * norm.invstd[channel] * norm.gamma[channel] + norm.beta[channel];
    }
  });
}

/// With S = sum of grad, Q = sum of grad * xhat over N rows and xhat = (x - mean) * invstd, the gradient of the norm's
/// input is gamma * invstd * (grad - S / N - xhat * Q / N).
void norm_sums(const ConvBuffers::Norm& norm, const float* grad, const float* x, const Conv2dShape& shape) {
  const int64_t rows = shape.n * shape.h * shape.w;
  const auto terms = [&](int64_t i, int64_t channel) {
    return Two{grad[i] * (double{x[i]} - norm.mean[channel]) * norm.invstd[channel], grad[i]};
  };
  channel_sums(rows, shape.c, terms, norm.grad_gamma, norm.grad_beta);
  for (int64_t channel = 0; channel < shape.c; ++channel) {
    const double slope = double{norm.gamma[channel]} * norm.invstd[channel];
    const double q = slope * norm.invstd[channel] * norm.grad_gamma[channel] / static_cast<double>(rows);
    norm.scale_grad[channel] = static_cast<float>(slope);
    norm.scale_x[channel] = static_cast<float>(-q);
    norm.offset[channel] =
        static_cast<float>(q * norm.mean[channel] - slope * norm.grad_beta[channel] / static_cast<double>(rows));
  }
}

/// In place: grad becomes what passes the ReLU.
void mask(float* grad, const float* argument, int64_t count) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) grad[i] = argument[i] <= 0 ? 0.0F : grad[i];
  });
}

void add(const float* values, float* sum, int64_t count) {
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum[i] += values[i];
  });
}

void norm_backward(const ConvPlanKey& key, const ConvBuffers& b, FloatsOut& grad) {
  const int64_t count = key.shape.x_numel();
  const ConvEpilogue epilogue = key.fusion.epilogue;
  const bool dual = epilogue == ConvEpilogue::add_dual_norm_backward;
  if (epilogue != ConvEpilogue::norm_backward) {
    add(FloatsIn(b.shortcut_grad, count, key.type).data(), grad.data(), count);
  }
  std::vector<float> argument(static_cast<size_t>(count), 0.0F);
  const FloatsIn x(b.norm.x, count, key.type);
  const FloatsIn residual_x(b.residual_norm.x, dual ? count : 0, key.type);
  add_normalised(b.norm, x.data(), key.shape, argument.data());
  if (epilogue == ConvEpilogue::add_norm_backward) {
    add(FloatsIn(b.residual, count, key.type).data(), argument.data(), count);
  }
  if (dual) add_normalised(b.residual_norm, residual_x.data(), key.shape, argument.data());
  mask(grad.data(), argument.data(), count);
  grad.store();
  norm_sums(b.norm, grad.data(), x.data(), key.shape);
  if (dual) norm_sums(b.residual_norm, grad.data(), residual_x.data(), key.shape);
}

}  // namespace

void conv2d_forward_form(const ConvPlanKey& key, const ConvBuffers& b) {
  const Conv2dShape& shape = key.shape;
  const Input x(key, b);
  const FloatsIn weight(b.weight, shape.weight_numel(), key.type);
  FloatsOut y(b.y, shape.y_numel(), key.type);
  conv2d_forward_fast(x.data(), weight.data(), nullptr, y.data(), shape);
  y.store();
  if (key.fusion.epilogue != ConvEpilogue::statistics) return;
  const float* values = y.data();
  const auto terms = [&](int64_t i, int64_t) { return Two{values[i], double{values[i]} * values[i]}; };
  channel_sums(shape.y_numel() / shape.k, shape.k, terms, b.sum, b.sum_of_squares);
}

void conv2d_backward_data_form(const ConvPlanKey& key, const ConvBuffers& b) {
  const Conv2dShape& shape = key.shape;
  const FloatsIn grad_y(b.grad_y, shape.y_numel(), key.type), weight(b.weight, shape.weight_numel(), key.type);
  FloatsOut grad_x(b.grad_x, shape.x_numel(), key.type);
  conv2d_backward_data_fast(grad_y.data(), weight.data(), grad_x.data(), shape);
  if (key.fusion.epilogue == ConvEpilogue::none) return grad_x.store();
  norm_backward(key, b, grad_x);
}

void conv2d_backward_weights_form(const ConvPlanKey& key, const ConvBuffers& b) {
  const Conv2dShape& shape = key.shape;
  const Input x(key, b);
  const FloatsIn grad_y(b.grad_y, shape.y_numel(), key.type);
  FloatsOut grad_weight(b.grad_weight, shape.weight_numel(), key.type);
  conv2d_backward_weights_fast(x.data(), grad_y.data(), grad_weight.data(), nullptr, shape);
  grad_weight.store();
}

}  // namespace engine::kernels
