#include "kernels/sgd/sgd_cuda.h"

#include "kernels/common/by_warp.h"
#include "kernels/common/chunk_loop.h"
#include "kernels/common/launch.h"
#include "kernels/sgd/momentum.h"

namespace engine::kernels {
namespace {

template <typename G, typename C>
__global__ void __launch_bounds__(kChunkThreads) sgd_step_kernel(SgdUpdate<G, C> update) {
  const StepState state = load_by_warp(update.state);
  if (state.applied == 0) return;
  const ParameterChunk chunk = load_by_warp(update.chunks + blockIdx.x);
  const MomentumStep step{.lr = state.lr,
                          .gradient_factor = state.grad_factor,
                          .decay = chunk.weight_decay,
                          .momentum = update.momentum,
                          .nesterov = update.nesterov,
                          .first_step = state.applied_steps == 1};
  for_each_in_chunk(chunk, [&](auto elements, int64_t i) {
    step.apply(elements, update.master + i, update.gradients + i, offset_or_null(update.momentum_buffer, i),
               offset_or_null(update.compute_copy, i));
  });
}

}  // namespace

template <typename G, typename C>
void sgd_step_cuda(const SgdUpdate<G, C>& update, cudaStream_t stream) {
  launch<sgd_step_kernel<G, C>>({.grid = static_cast<unsigned>(update.chunk_count),
                                 .block = kChunkThreads,
                                 .bytes = update.elements * momentum_step_bytes(update)},
                                stream, update);
}

template void sgd_step_cuda(const SgdUpdate<float, float>&, cudaStream_t);
template void sgd_step_cuda(const SgdUpdate<Half, Half>&, cudaStream_t);
template void sgd_step_cuda(const SgdUpdate<BFloat16, BFloat16>&, cudaStream_t);
template void sgd_step_cuda(const SgdUpdate<float, Half>&, cudaStream_t);
template void sgd_step_cuda(const SgdUpdate<float, BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
