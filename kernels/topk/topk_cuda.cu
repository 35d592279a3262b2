#include "kernels/common/device_reduce.h"
#include "kernels/common/pointwise.h"
#include "kernels/topk/topk_cuda.h"

namespace engine::kernels {
namespace {

constexpr int kThreads = 128;  // a warp for each row

template <typename T, int kWidth>
__global__ void topk_correct_kernel(TopkCorrectCuda<T> args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= args.rows) return;
  const T* logits = args.logits + row * args.classes;
  const int64_t label = args.labels[row];
  if (label < 0 || label >= args.classes) return;
  const float own = to_float(logits[label]);
  int above = 0;
#pragma unroll 4
  for (int64_t first = int64_t{lane} * kWidth; first < args.classes; first += kWarp * kWidth) {
    const Values<kWidth> values = load_values<kWidth>(logits + first);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float value = values.at[i];
      above += value > own || (value == own && first + i < label) || value != value;
    }
  }
  above = warp_reduce(above, Sum());
  // A NaN of its own is counted among those above, which k may be large enough to forgive.
  int32_t* correct = args.correct;
  if (lane == 0 && own == own && above < args.k) atomicAdd(correct, 1);
}

}  // namespace

template <typename T>
void topk_correct_cuda(const TopkCorrectCuda<T>& args, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  const LaunchShape shape{.grid = blocks_for(args.rows, kThreads / kWarp),
                          .block = kThreads,
                          .bytes = args.rows * (args.classes * int64_t{sizeof(T)} + 8)};
  if (aligned_groups<kWidth>(args.logits) && args.classes % kWidth == 0) {
    launch<topk_correct_kernel<T, kWidth>>(shape, stream, args);
  } else {
    launch<topk_correct_kernel<T, 1>>(shape, stream, args);
  }
}

template void topk_correct_cuda(const TopkCorrectCuda<float>&, cudaStream_t);
template void topk_correct_cuda(const TopkCorrectCuda<Half>&, cudaStream_t);
template void topk_correct_cuda(const TopkCorrectCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
