#include <cassert>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"

namespace engine::kernels {
namespace {

template <typename T>
struct Affine {
  T mean, scale, beta;
};

template <typename T>
void apply(const BatchNormForward<T>& args, int64_t channel, const Affine<T>& affine) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const int64_t i = row * args.channels + channel;
    T z = normalise(args.x[i], affine.mean, affine.scale, affine.beta);
    if (args.residual != nullptr) z += args.residual[i];
    args.y[i] = args.relu ? rectify(z) : z;
  }
}

template <typename T>
T masked(const BatchNormBackward<T>& args, int64_t i, const Affine<T>& affine) {
  if (!args.relu) return args.grad_y[i];
  const T y = args.y != nullptr ? args.y[i] : normalise(args.x[i], affine.mean, affine.scale, affine.beta);
  return y <= 0 ? T{0} : args.grad_y[i];
}

// grad_x = g * gain + (x - mean) * slope + offset; in evaluation slope and offset are 0.
template <typename T>
void backward(const BatchNormBackward<T>& args, bool training) {
  for (int64_t channel = 0; channel < args.channels; ++channel) {
    const T invstd = training ? args.invstd[channel] : inverse_std(args.running_var[channel], args.eps);
    const Affine<T> affine{args.mean[channel], args.gamma[channel] * invstd,
                           args.beta != nullptr ? args.beta[channel] : T{0}};
    double sum = 0, dot = 0;
    for (int64_t row = 0; row < args.rows; ++row) {
      const int64_t i = row * args.channels + channel;
      const double g = masked(args, i, affine);
      sum += g;
      dot += g * (static_cast<double>(args.x[i]) - affine.mean);
    }
    args.grad_beta[channel] = static_cast<T>(sum);
    args.grad_gamma[channel] = static_cast<T>(dot * invstd);
    const double n = static_cast<double>(args.rows), gain = static_cast<double>(args.gamma[channel]) * invstd;
    const double slope = training ? -gain * invstd * invstd * dot / n : 0;
    const double offset = training ? -gain * sum / n : 0;
    for (int64_t row = 0; row < args.rows; ++row) {
      const int64_t i = row * args.channels + channel;
      const T g = masked(args, i, affine);
      const double centred = static_cast<double>(args.x[i]) - affine.mean;
      if (args.grad_x != nullptr) {
        args.grad_x[i] = static_cast<T>(training ? g * gain + centred * slope + offset : g * gain);
      }
      if (args.grad_residual != nullptr) args.grad_residual[i] = g;
    }
  }
}

}  // namespace

template <typename T>
void batch_norm_forward_cpu(const BatchNormForward<T>& args) {
  assert(args.rows >= 2);
  const double n = static_cast<double>(args.rows);
  for (int64_t channel = 0; channel < args.channels; ++channel) {
    double mean = 0, squares = 0;
    for (int64_t row = 0; row < args.rows; ++row) mean += args.x[row * args.channels + channel];
    mean /= n;
    for (int64_t row = 0; row < args.rows; ++row) {
      const double centred = args.x[row * args.channels + channel] - mean;
      squares += centred * centred;
    }
    save_statistics(args, channel, mean, squares);
    apply(args, channel,
          {args.saved_mean[channel], args.gamma[channel] * args.saved_invstd[channel], args.beta[channel]});
  }
}

template <typename T>
void batch_norm_inference_cpu(const BatchNormForward<T>& args) {
  for (int64_t channel = 0; channel < args.channels; ++channel) {
    const T invstd = inverse_std(args.running_var[channel], args.eps);
    apply(args, channel, {args.running_mean[channel], args.gamma[channel] * invstd, args.beta[channel]});
  }
}

template <typename T>
void batch_norm_backward_cpu(const BatchNormBackward<T>& args) {
  backward(args, true);
}

template <typename T>
void batch_norm_inference_backward_cpu(const BatchNormBackward<T>& args) {
  backward(args, false);
}

template void batch_norm_forward_cpu(const BatchNormForward<float>&);
template void batch_norm_forward_cpu(const BatchNormForward<double>&);
template void batch_norm_inference_cpu(const BatchNormForward<float>&);
template void batch_norm_inference_cpu(const BatchNormForward<double>&);
template void batch_norm_backward_cpu(const BatchNormBackward<float>&);
template void batch_norm_backward_cpu(const BatchNormBackward<double>&);
template void batch_norm_inference_backward_cpu(const BatchNormBackward<float>&);
template void batch_norm_inference_backward_cpu(const BatchNormBackward<double>&);

}  // namespace engine::kernels
