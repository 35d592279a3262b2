#include "kernels/adam/adam_cuda.h"

#include <cmath>

#include "kernels/common/by_warp.h"
#include "kernels/common/chunk_loop.h"
#include "kernels/common/launch.h"

namespace engine::kernels {
namespace {

/// Scalars that do not change from step to step, rounded to float once.
struct AdamConstants {
  float log_beta1, log_beta2;
  float gain1, beta2, gain2;
  float eps;
  bool decoupled;
};

struct AdamStep {
  float gradient_factor;
  float shrink;
  float decay;
  float step_size;
  float correction;
  AdamConstants constants;

  template <int kCount, typename G, typename C>
  __device__ void apply(Count<kCount>, float* w, const G* gradient, float* exp_avg, float* exp_avg_sq, C* copy) const {
    Values<kCount> weights = load_values<kCount>(w);
    const Values<kCount> gradients = load_values<kCount>(gradient);
    Values<kCount> first = load_values<kCount>(exp_avg), second = load_values<kCount>(exp_avg_sq);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float g = gradients.at[i] * gradient_factor + decay * weights.at[i];
      const float m = first.at[i] + constants.gain1 * (g - first.at[i]);
      const float v = constants.beta2 * second.at[i] + constants.gain2 * g * g;
      first.at[i] = m;
      second.at[i] = v;
      weights.at[i] = weights.at[i] * shrink - step_size * (m / (sqrtf(v) / correction + constants.eps));
    }
    store_values(w, weights);
    store_values(exp_avg, first);
    store_values(exp_avg_sq, second);
    if (copy != nullptr) store_values(copy, weights);
  }
};

/// 1 - beta^step. expm1 keeps the digits that the difference would lose where beta^step is close to 1.
__device__ float bias_correction(float log_beta, int64_t step) { return -expm1f(static_cast<float>(step) * log_beta); }

template <typename G, typename C>
__global__ void __launch_bounds__(kChunkThreads) adam_step_kernel(AdamUpdate<G, C> update, AdamConstants constants) {
  const StepState state = load_by_warp(update.state);
  if (state.applied == 0) return;
  const ParameterChunk chunk = load_by_warp(update.chunks + blockIdx.x);
  const float lr = state.lr, decay = chunk.weight_decay;
  const int64_t count = state.applied_steps;
  const AdamStep step{.gradient_factor = state.grad_factor,
                      .shrink = constants.decoupled ? 1 - lr * decay : 1,
                      .decay = constants.decoupled ? 0 : decay,
                      .step_size = lr / bias_correction(constants.log_beta1, count),
                      .correction = sqrtf(bias_correction(constants.log_beta2, count)),
                      .constants = constants};
  for_each_in_chunk(chunk, [&](auto elements, int64_t i) {
    step.apply(elements, update.master + i, update.gradients + i, update.exp_avg + i, update.exp_avg_sq + i,
               offset_or_null(update.compute_copy, i));
  });
}

}  // namespace

template <typename G, typename C>
void adam_step_cuda(const AdamUpdate<G, C>& update, cudaStream_t stream) {
  const AdamConstants constants{.log_beta1 = static_cast<float>(std::log(update.beta1)),
                                .log_beta2 = static_cast<float>(std::log(update.beta2)),
                                .gain1 = static_cast<float>(1 - update.beta1),
                                .beta2 = static_cast<float>(update.beta2),
                                .gain2 = static_cast<float>(1 - update.beta2),
                                .eps = static_cast<float>(update.eps),
                                .decoupled = update.decoupled};
  const int64_t copied = update.compute_copy != nullptr ? sizeof(C) : 0;
  launch<adam_step_kernel<G, C>>({.grid = static_cast<unsigned>(update.chunk_count),
                                  .block = kChunkThreads,
                                  .bytes = update.elements * (24 + int64_t{sizeof(G)} + copied)},
                                 stream, update, constants);
}

template void adam_step_cuda(const AdamUpdate<float, float>&, cudaStream_t);
template void adam_step_cuda(const AdamUpdate<Half, Half>&, cudaStream_t);
template void adam_step_cuda(const AdamUpdate<BFloat16, BFloat16>&, cudaStream_t);
template void adam_step_cuda(const AdamUpdate<float, Half>&, cudaStream_t);
template void adam_step_cuda(const AdamUpdate<float, BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
