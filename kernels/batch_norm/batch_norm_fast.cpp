#include <cassert>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"
#include "kernels/batch_norm/pieces.h"
#include "kernels/batch_norm/workspace.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
#include "kernels/common/stream.h"

namespace engine::kernels {
namespace {

template <bool kResidual, bool kRelu, typename T>
void apply_form(const BatchNormForward<T>& args, const float* mean, const float* scale, Range rows) {
  const int64_t c = args.channels;
  const float* beta = args.beta;
  const T *x = args.x, *residual = args.residual;
  const bool past_cache = streams(args.y, c, args.rows * c) && args.y != x && args.y != residual;
  for_each_piece_backwards(rows, c, [=](int64_t first, int64_t channel, int64_t width) {
    StreamBuffer buffer(args.y + first, past_cache);
    T* y = buffer.data();
    const float *mean_c = mean + channel, *scale_c = scale + channel, *beta_c = beta + channel;
    prefetch_ahead(x + first, width);
    if constexpr (kResidual) prefetch_ahead(residual + first, width);
    for_each_vector(width, [=]<typename V>(int64_t i) {
      V z =
          normalise(load_as<V>(x + first + i), load_as<V>(mean_c + i), load_as<V>(scale_c + i), load_as<V>(beta_c + i));
      if constexpr (kResidual) z += load_as<V>(residual + first + i);
      store_as(y + i, kRelu ? rectify(z) : z);
    });
    buffer.flush(width);
  });
  stream_fence();
}

template <typename T>
void apply(const BatchNormForward<T>& args, const float* mean, const float* scale, Range rows) {
  const auto chosen = args.residual != nullptr ? (args.relu ? apply_form<true, true, T> : apply_form<true, false, T>)
                                               : (args.relu ? apply_form<false, true, T> : apply_form<false, false, T>);
  chosen(args, mean, scale, rows);
}

}  // namespace

int64_t batch_norm_workspace_bytes(int64_t channels) { return BatchNormWorkspace::bytes(channels); }

template <typename T>
void batch_norm_forward_fast(const BatchNormForward<T>& args) {
  assert(args.rows >= 2);
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  float* scale = workspace.shared(0);
  save_batch_statistics(args, workspace, scale);
  workspace.for_each_part([&](int64_t, Range rows) { apply(args, args.saved_mean, scale, rows); });
}

template <typename T>
void batch_norm_inference_fast(const BatchNormForward<T>& args) {
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  float* scale = workspace.shared(0);
  for (int64_t i = 0; i < args.channels; ++i) {
    scale[i] = args.gamma[i] * inverse_std(args.running_var[i], args.eps);
  }
  workspace.for_each_part([&](int64_t, Range rows) { apply(args, args.running_mean, scale, rows); });
}

template void batch_norm_forward_fast(const BatchNormForward<float>&);
template void batch_norm_forward_fast(const BatchNormForward<Half>&);
template void batch_norm_forward_fast(const BatchNormForward<BFloat16>&);
template void batch_norm_inference_fast(const BatchNormForward<float>&);
template void batch_norm_inference_fast(const BatchNormForward<Half>&);
template void batch_norm_inference_fast(const BatchNormForward<BFloat16>&);

}  // namespace engine::kernels
