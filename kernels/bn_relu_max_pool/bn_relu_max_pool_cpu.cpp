#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"

#include <algorithm>
#include <cmath>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"

namespace engine::kernels {
namespace {

template <typename T>
void save_statistics_of_channel(const BatchNormForward<T>& args, int64_t channel) {
  double mean = 0, squares = 0;
  for (int64_t row = 0; row < args.rows; ++row) mean += args.x[row * args.channels + channel];
  mean /= static_cast<double>(args.rows);
  for (int64_t row = 0; row < args.rows; ++row) {
    const double centred = args.x[row * args.channels + channel] - mean;
    squares += centred * centred;
  }
  save_statistics(args, channel, mean, squares);
}

struct Position {
  int64_t n, oh, ow, c;
};

Position position_of(const Pool2dShape& s, int64_t out) {
  const int64_t pixel = out / s.c;
  return {pixel / s.out_w() / s.out_h(), pixel / s.out_w() % s.out_h(), pixel % s.out_w(), out % s.c};
}

// The input element at a place of an output's window, or -1 where that lies in the padding.
int64_t element_at(const Pool2dShape& s, const Position& at, int64_t place) {
  const int64_t h = at.oh * s.stride_h - s.pad_h + place / s.kernel_w;
  const int64_t w = at.ow * s.stride_w - s.pad_w + place % s.kernel_w;
  const bool inside = h >= 0 && h < s.h && w >= 0 && w < s.w;
  return inside ? ((at.n * s.h + h) * s.w + w) * s.c + at.c : -1;
}

}  // namespace

template <typename T>
void bn_relu_max_pool_forward_cpu(const BnReluMaxPoolForward<T>& args) {
  const Pool2dShape& s = args.shape;
  const BatchNormForward<T> norm{.rows = s.n * s.h * s.w,
                                 .channels = s.c,
                                 .eps = args.eps,
                                 .momentum = args.momentum,
                                 .x = args.x,
                                 .running_mean = args.running_mean,
                                 .running_var = args.running_var,
                                 .saved_mean = args.saved_mean,
                                 .saved_invstd = args.saved_invstd};
  for (int64_t c = 0; c < s.c; ++c) save_statistics_of_channel(norm, c);
  for (int64_t out = 0; out < s.n * s.out_h() * s.out_w() * s.c; ++out) {
    const Position at = position_of(s, out);
    const T scale = args.gamma[at.c] * args.saved_invstd[at.c];
    T best = 0;
    args.index[out] = kNoWinner;
    for (int64_t place = 0; place < s.kernel_h * s.kernel_w; ++place) {
      const int64_t in = element_at(s, at, place);
      if (in < 0) continue;
      const T z = normalise(args.x[in], args.saved_mean[at.c], scale, args.beta[at.c]);
      if (!(z > best) && !std::isnan(z)) continue;
      best = z;
      args.index[out] = static_cast<uint8_t>(place);
    }
    args.y[out] = best;
  }
}

template <typename T>
void bn_relu_max_pool_backward_cpu(const BnReluMaxPoolBackward<T>& args) {
  const Pool2dShape& s = args.shape;
  const int64_t rows = s.n * s.h * s.w, outputs = s.n * s.out_h() * s.out_w();
  for (int64_t c = 0; c < s.c; ++c) {
    double sum = 0, dot = 0;
    for (int64_t out = c; out < outputs * s.c; out += s.c) {
      if (args.index[out] == kNoWinner) continue;
      const int64_t in = element_at(s, position_of(s, out), args.index[out]);
      sum += args.grad_y[out];
      dot += args.grad_y[out] * (static_cast<double>(args.x[in]) - args.mean[c]);
    }
    args.grad_beta[c] = static_cast<T>(sum);
    args.grad_gamma[c] = static_cast<T>(dot * args.invstd[c]);
    if (args.grad_x == nullptr) continue;
    const double invstd = args.invstd[c], gain = args.gamma[c] * invstd, n = static_cast<double>(rows);
    for (int64_t in = c; in < rows * s.c; in += s.c) {
      const double centred = static_cast<double>(args.x[in]) - args.mean[c];
      args.grad_x[in] = static_cast<T>(-gain / n * (sum + centred * invstd * invstd * dot));
    }
    for (int64_t out = c; out < outputs * s.c; out += s.c) {
      if (args.index[out] == kNoWinner) continue;
      args.grad_x[element_at(s, position_of(s, out), args.index[out])] += static_cast<T>(gain * args.grad_y[out]);
    }
  }
}

template void bn_relu_max_pool_forward_cpu(const BnReluMaxPoolForward<float>&);
template void bn_relu_max_pool_forward_cpu(const BnReluMaxPoolForward<double>&);
template void bn_relu_max_pool_backward_cpu(const BnReluMaxPoolBackward<float>&);
template void bn_relu_max_pool_backward_cpu(const BnReluMaxPoolBackward<double>&);

}  // namespace engine::kernels
