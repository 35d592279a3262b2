#include "kernels/lars/lars_cuda.h"

#include "kernels/common/by_warp.h"
#include "kernels/common/chunk_loop.h"
#include "kernels/common/launch.h"
#include "kernels/sgd/momentum.h"

namespace engine::kernels {
namespace {

constexpr int kRatioThreads = 128;

struct Squares {
  double weights;
  double gradients;
};

template <typename T>
constexpr int64_t rounded_up(int64_t count) {
  return (count * static_cast<int64_t>(sizeof(T)) + 15) / 16 * 16;
}

__device__ double squared(float value) { return static_cast<double>(value) * static_cast<double>(value); }

template <typename G, typename C>
__global__ void __launch_bounds__(kChunkThreads) lars_norms_kernel(LarsUpdate<G, C> update, Squares* squares) {
  if (load_by_warp(update.state).applied == 0) return;
  const ParameterChunk chunk = load_by_warp(update.chunks + blockIdx.x);
  if (update.tensors[chunk.segment].trust_ratio == 0) return;
  Squares sum{0, 0};
  for_each_in_chunk(chunk, [&]<int kCount>(Count<kCount>, int64_t i) {
    const Values<kCount> weights = load_values<kCount>(update.master + i);
    const Values<kCount> gradients = load_values<kCount>(update.gradients + i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      sum.weights += squared(weights.at[j]);
      sum.gradients += squared(gradients.at[j]);
    }
  });
  sum.weights = block_reduce<kChunkThreads>(sum.weights, Sum());
  sum.gradients = block_reduce<kChunkThreads>(sum.gradients, Sum());
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kRatioThreads)
    lars_ratios_kernel(const StepState* step, const LarsTensor* tensors, const Squares* squares, float trust,
                       float* ratios) {
  const StepState state = load_by_warp(step);
  if (state.applied == 0) return;
  const LarsTensor tensor = load_by_warp(tensors + blockIdx.x);
  double ratio = 1;
  if (tensor.trust_ratio != 0) {
    Squares sum{0, 0};
    for (int i = static_cast<int>(threadIdx.x); i < tensor.chunk_count; i += kRatioThreads) {
      sum.weights += squares[tensor.first_chunk + i].weights;
      sum.gradients += squares[tensor.first_chunk + i].gradients;
    }
    const double w_norm = sqrt(block_reduce<kRatioThreads>(sum.weights, Sum()));
    const double grad_norm =
        sqrt(block_reduce<kRatioThreads>(sum.gradients, Sum())) * static_cast<double>(state.grad_factor);
    if (w_norm != 0 && grad_norm != 0) {
      ratio = static_cast<double>(trust) * w_norm / (grad_norm + static_cast<double>(tensor.weight_decay) * w_norm);
    }
  }
  if (threadIdx.x == 0) ratios[blockIdx.x] = static_cast<float>(ratio);
}

template <typename G, typename C>
__global__ void __launch_bounds__(kChunkThreads) lars_step_kernel(LarsUpdate<G, C> update, const float* ratios) {
  const StepState state = load_by_warp(update.state);
  if (state.applied == 0) return;
  const ParameterChunk chunk = load_by_warp(update.chunks + blockIdx.x);
  const float ratio = ratios[chunk.segment];
  const MomentumStep step{.lr = state.lr,
                          .gradient_factor = ratio * state.grad_factor,
                          .decay = ratio * chunk.weight_decay,
                          .momentum = update.momentum,
                          .nesterov = update.nesterov,
                          .first_step = state.applied_steps == 1};
  for_each_in_chunk(chunk, [&](auto elements, int64_t i) {
    step.apply(elements, update.master + i, update.gradients + i, offset_or_null(update.momentum_buffer, i),
               offset_or_null(update.compute_copy, i));
  });
}

}  // namespace

std::vector<LarsTensor> lars_tensors(std::span<const ParameterSegment> segments) {
  std::vector<LarsTensor> tensors;
  int32_t first = 0;
  for (const ParameterSegment& segment : segments) {
    const auto count = static_cast<int32_t>((segment.count + kParameterChunk - 1) / kParameterChunk);
    tensors.push_back({first, count, segment.weight_decay, segment.trust_ratio ? 1 : 0});
    first += count;
  }
  return tensors;
}

int64_t lars_workspace_bytes(int chunk_count, int tensor_count) {
  return rounded_up<Squares>(chunk_count) + rounded_up<float>(tensor_count);
}

template <typename G, typename C>
void lars_step_cuda(const LarsUpdate<G, C>& update, void* workspace, cudaStream_t stream) {
  auto* squares = static_cast<Squares*>(workspace);
  auto* ratios = reinterpret_cast<float*>(static_cast<char*>(workspace) + rounded_up<Squares>(update.chunk_count));
  const int64_t square_bytes = update.chunk_count * int64_t{sizeof(Squares)};
  LaunchShape by_chunk{.grid = static_cast<unsigned>(update.chunk_count),
                       .block = kChunkThreads,
                       .bytes = update.elements * int64_t{sizeof(float) + sizeof(G)} + square_bytes};
  launch<lars_norms_kernel<G, C>>(by_chunk, stream, update, squares);
  launch<lars_ratios_kernel>(
      {.grid = static_cast<unsigned>(update.tensor_count),
       .block = kRatioThreads,
       .bytes = square_bytes + update.tensor_count * int64_t{sizeof(LarsTensor) + sizeof(float)}},
      stream, update.state, update.tensors, squares, update.trust_coefficient, ratios);
  by_chunk.bytes = update.elements * momentum_step_bytes(update);
  launch<lars_step_kernel<G, C>>(by_chunk, stream, update, ratios);
}

template void lars_step_cuda(const LarsUpdate<float, float>&, void*, cudaStream_t);
template void lars_step_cuda(const LarsUpdate<Half, Half>&, void*, cudaStream_t);
template void lars_step_cuda(const LarsUpdate<BFloat16, BFloat16>&, void*, cudaStream_t);
template void lars_step_cuda(const LarsUpdate<float, Half>&, void*, cudaStream_t);
template void lars_step_cuda(const LarsUpdate<float, BFloat16>&, void*, cudaStream_t);

}  // namespace engine::kernels
