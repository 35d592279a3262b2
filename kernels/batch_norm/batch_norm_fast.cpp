#include <cassert>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/batch_norm/normalise.h"
#include "kernels/batch_norm/pieces.h"
#include "kernels/batch_norm/workspace.h"
#include "kernels/common/parallel.h"
#include "kernels/common/stream.h"

namespace engine::kernels {
namespace {

template <bool kResidual, bool kRelu>
void apply(const BatchNormForward<float>& args, const float* mean, const float* scale, Range rows) {
  const int64_t c = args.channels;
  const float *beta = args.beta, *x = args.x, *residual = args.residual;
  const bool past_cache = streams(args.y, c, args.rows * c) && args.y != x && args.y != residual;
  for_each_piece_backwards(rows, c, [=](int64_t first, int64_t channel, int64_t width) {
    StreamBuffer buffer(args.y + first, past_cache);
    float* y = buffer.data();
    const float *mean_c = mean + channel, *scale_c = scale + channel, *beta_c = beta + channel;
    prefetch_ahead(x + first, width);
    if constexpr (kResidual) prefetch_ahead(residual + first, width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      float z = normalise(x[first + i], mean_c[i], scale_c[i], beta_c[i]);
      if constexpr (kResidual) z += residual[first + i];
      y[i] = kRelu ? rectify(z) : z;
    }
    buffer.flush(width);
  });
  stream_fence();
}

void apply(const BatchNormForward<float>& args, const float* mean, const float* scale, Range rows) {
  const auto chosen = args.residual != nullptr ? (args.relu ? apply<true, true> : apply<true, false>)
                                               : (args.relu ? apply<false, true> : apply<false, false>);
  chosen(args, mean, scale, rows);
}

}  // namespace

int64_t batch_norm_workspace_bytes(int64_t channels) { return BatchNormWorkspace::bytes(channels); }

void batch_norm_forward_fast(const BatchNormForward<float>& args) {
  assert(args.rows >= 2);
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  float* scale = workspace.shared(0);
  save_batch_statistics(args, workspace, scale);
  workspace.for_each_part([&](int64_t, Range rows) { apply(args, args.saved_mean, scale, rows); });
}

void batch_norm_inference_fast(const BatchNormForward<float>& args) {
  const BatchNormWorkspace workspace(args.workspace, args.rows, args.channels);
  float* scale = workspace.shared(0);
  for (int64_t i = 0; i < args.channels; ++i) {
    scale[i] = args.gamma[i] * inverse_std(args.running_var[i], args.eps);
  }
  workspace.for_each_part([&](int64_t, Range rows) { apply(args, args.running_mean, scale, rows); });
}

}  // namespace engine::kernels
