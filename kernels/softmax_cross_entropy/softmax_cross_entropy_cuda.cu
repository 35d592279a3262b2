#include <algorithm>
#include <cmath>

#include "kernels/common/device_reduce.h"
#include "kernels/common/pointwise.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_cuda.h"

namespace engine::kernels {
namespace {

constexpr int kThreads = 128;       // a warp or, of a short row, a thread for each row
constexpr int kBlockThreads = 256;  // of a long row, and of the sum of losses
constexpr int64_t kThreadClasses = 32, kWarpClasses = 1024;

// What the kernels need of the arguments, each number rounded once.
template <typename T>
struct Problem {
  const T* logits;
  const int64_t* labels;
  T* grad_logits;
  const float* grad_scale;
  float* row_losses;
  int64_t rows;
  int classes;
  float smoothing, others;  // s, and s / classes: the target of every class, to which the label's adds 1 - s
  float per_row;            // 1 / normalizer

  __device__ float scale() const { return grad_scale == nullptr ? per_row : per_row * *grad_scale; }
};

struct RowSums {
  float max, exponentials;
};

// `spread` is the sum over classes of logit - max, `at_label` the label's.
template <typename T>
__device__ float row_loss(const Problem<T>& problem, const RowSums& sums, float at_label, float spread) {
  const float log_sum = logf(sums.exponentials), cost = log_sum - at_label;
  // Apart, so that an infinite cost of another class does not meet a weight of 0.
  if (problem.smoothing == 0) return cost;
  return (1 - problem.smoothing) * cost + problem.others * (static_cast<float>(problem.classes) * log_sum - spread);
}

// The gradient of class k, whose exp(logit - max) is given.
template <typename T>
__device__ float class_gradient(const Problem<T>& problem, float softmax, float scale, bool is_label) {
  const float target = problem.others + (is_label ? 1 - problem.smoothing : 0.0F);
  return scale * (softmax - target);
}

// A label that is no class makes its row NaN, as the host cannot be told.
template <typename T>
__device__ int checked_label(const Problem<T>& problem, int64_t row) {
  const int64_t label = problem.labels[row];
  return label >= 0 && label < problem.classes ? static_cast<int>(label) : -1;
}

struct LossSum {
  double normalizer;
  float* loss;
  bool accumulate;

  __device__ void store(double sum) const {
    sum /= normalizer;
    *loss = static_cast<float>(accumulate ? *loss + sum : sum);
  }
};

// One row by one thread. cells hold its logits and get its gradients. Lanes whose rows begin in the same bank of shared
// memory, because the number of classes is even, begin at different classes.
template <typename T>
__device__ float short_row(const Problem<T>& problem, float* cells, int lane, int label) {
  const int classes = problem.classes, first = lane * (classes & -classes) / kWarp;
  const auto each = [&](auto f) {
    int k = first;
    for (int left = classes; left > 0; --left) {
      f(k);
      k = k + 1 < classes ? k + 1 : 0;
    }
  };
  RowSums sums{-INFINITY, 0};
  each([&](int k) { sums.max = fmaxf(sums.max, cells[k]); });
  float at_label = 0, spread = 0;
  each([&](int k) {
    const float below_max = cells[k] - sums.max, exponential = expf(below_max);
    if (k == label) at_label = below_max;
    spread += below_max;
    sums.exponentials += exponential;
    cells[k] = exponential;
  });
  if (label < 0) sums.exponentials = NAN;
  if (problem.grad_logits != nullptr) {
    const float scale = problem.scale(), inverse = 1 / sums.exponentials;
    each([&](int k) { cells[k] = class_gradient(problem, cells[k] * inverse, scale, k == label); });
  }
  return row_loss(problem, sums, at_label, spread);
}

// A warp moves 32 rows as one run of elements, by way of shared memory; then each thread has a row. kAlone: one block
// has all rows and sums their losses itself.
template <typename T, bool kAlone>
__global__ void __launch_bounds__(kThreads) softmax_cross_entropy_rows_kernel(Problem<T> problem, LossSum total) {
  ENGINE_SHARED(float, staged, kThreads* kThreadClasses);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first_row = int64_t{blockIdx.x} * kThreads + warp * kWarp, left = problem.rows - first_row;
  const int rows = left >= kWarp ? kWarp : left > 0 ? static_cast<int>(left) : 0, elements = rows * problem.classes;
  float* cells = staged + warp * kWarp * problem.classes;
  const int64_t first = first_row * problem.classes;
  for (int i = lane; i < elements; i += kWarp) cells[i] = to_float(problem.logits[first + i]);
  __syncwarp();
  float loss = 0;
  if (lane < rows) {
    const int label = checked_label(problem, first_row + lane);
    loss = short_row(problem, cells + lane * problem.classes, lane, label);
    if (!kAlone) problem.row_losses[first_row + lane] = loss;
  }
  __syncwarp();
  if (problem.grad_logits != nullptr) {
    for (int i = lane; i < elements; i += kWarp) problem.grad_logits[first + i] = from_float<T>(cells[i]);
  }
  if constexpr (kAlone) {
    const double sum = block_reduce<kThreads>(static_cast<double>(loss), Sum());
    if (threadIdx.x == 0) total.store(sum);
  }
}

// A warp has a row in registers: kGroups groups a lane.
template <typename T, int kWidth, int kGroups>
__global__ void softmax_cross_entropy_warp_kernel(Problem<T> problem) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, groups = problem.classes / kWidth;
  const int64_t row = int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= problem.rows) return;
  const T* logits = problem.logits + row * problem.classes;
  Values<kWidth> values[kGroups]{};
  float max = -INFINITY;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int group = g * kWarp + lane;
    if (group >= groups) continue;
    values[g] = load_values<kWidth>(logits + group * kWidth);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) max = fmaxf(max, values[g].at[i]);
  }
  max = warp_reduce(max, Maximum());
  const int label = checked_label(problem, row);
  float exponentials = 0, at_label = 0, spread = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int group = g * kWarp + lane;
    if (group >= groups) continue;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float below_max = values[g].at[i] - max;
      if (group * kWidth + i == label) at_label = below_max;
      spread += below_max;
      values[g].at[i] = expf(below_max);
      exponentials += values[g].at[i];
    }
  }
  exponentials = warp_reduce(exponentials, Sum());
  if (label < 0) exponentials = NAN;
  at_label = warp_reduce(at_label, Sum());
  spread = warp_reduce(spread, Sum());
  if (lane == 0) problem.row_losses[row] = row_loss(problem, {max, exponentials}, at_label, spread);
  if (problem.grad_logits == nullptr) return;
  const float scale = problem.scale(), inverse = 1 / exponentials;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const int group = g * kWarp + lane;
    if (group >= groups) continue;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values[g].at[i] = class_gradient(problem, values[g].at[i] * inverse, scale, group * kWidth + i == label);
    }
    store_values<kWidth>(problem.grad_logits + row * problem.classes + group * kWidth, values[g]);
  }
}

// One thread's maximum so far, and the sum of exp(logit - max) that goes with it.
template <int kWidth>
__device__ void add_logits(RowSums& sums, const Values<kWidth>& values) {
  float max = sums.max;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) max = fmaxf(max, values.at[i]);
  // Nothing but -inf so far: exp(-inf - 0) is 0, where exp(-inf - -inf) would be NaN.
  const float shift = max == -INFINITY ? 0 : max;
  sums.exponentials *= expf(sums.max - shift);
  sums.max = max;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums.exponentials += expf(values.at[i] - shift);
}

// A block has a row, and reads it again where more than the sum of exponentials is wanted.
template <typename T, int kWidth>
__global__ void softmax_cross_entropy_block_kernel(Problem<T> problem) {
  const int64_t row = blockIdx.x;
  const int groups = problem.classes / kWidth, thread = static_cast<int>(threadIdx.x);
  const T* logits = problem.logits + row * problem.classes;
  RowSums sums{-INFINITY, 0};
#pragma unroll 4
  for (int group = thread; group < groups; group += kBlockThreads) {
    add_logits(sums, load_values<kWidth>(logits + group * kWidth));
  }
  const float max = block_reduce<kBlockThreads>(sums.max, Maximum());
  const int label = checked_label(problem, row);
  sums.exponentials = block_reduce<kBlockThreads>(sums.exponentials * expf(sums.max - max), Sum());
  sums = {max, label < 0 ? NAN : sums.exponentials};
  const float at_label = label < 0 ? 0 : to_float(logits[label]) - max;
  const float scale = problem.scale(), inverse = 1 / sums.exponentials;
  float spread = 0;
  __syncthreads();  // the gradient may overwrite the logits
  if (problem.grad_logits != nullptr || problem.smoothing != 0) {
#pragma unroll 2
    for (int group = thread; group < groups; group += kBlockThreads) {
      Values<kWidth> values = load_values<kWidth>(logits + group * kWidth);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float below_max = values.at[i] - max;
        spread += below_max;
        values.at[i] = class_gradient(problem, expf(below_max) * inverse, scale, group * kWidth + i == label);
      }
      if (problem.grad_logits != nullptr) {
        store_values<kWidth>(problem.grad_logits + row * problem.classes + group * kWidth, values);
      }
    }
    spread = block_reduce<kBlockThreads>(spread, Sum());
  }
  if (thread == 0) problem.row_losses[row] = row_loss(problem, sums, at_label, spread);
}

__global__ void softmax_cross_entropy_sum_kernel(const float* row_losses, int64_t rows, LossSum total) {
  double sum = 0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < rows; row += kBlockThreads) sum += row_losses[row];
  sum = block_reduce<kBlockThreads>(sum, Sum());
  if (threadIdx.x == 0) total.store(sum);
}

// Logits, their gradient where wanted, the label and, where it is stored, the row's loss.
template <typename T>
int64_t row_bytes(const Problem<T>& problem, bool loss_stored) {
  const int64_t tensors = problem.grad_logits != nullptr ? 2 : 1;
  return tensors * problem.classes * int64_t{sizeof(T)} + int64_t{sizeof(int64_t)} +
         (loss_stored ? int64_t{sizeof(float)} : 0);
}

// Whether the losses are summed, too.
template <typename T>
bool run_short_rows(const Problem<T>& problem, const LossSum& total, cudaStream_t stream) {
  const bool alone = problem.rows <= kThreads;
  const LaunchShape shape{.grid = blocks_for(problem.rows, kThreads),
                          .block = kThreads,
                          .bytes = problem.rows * row_bytes(problem, !alone) + (alone ? int64_t{sizeof(float)} : 0)};
  if (alone) {
    launch<softmax_cross_entropy_rows_kernel<T, true>>(shape, stream, problem, total);
  } else {
    launch<softmax_cross_entropy_rows_kernel<T, false>>(shape, stream, problem, total);
  }
  return alone;
}

template <typename T, int kWidth>
void run_rows(const Problem<T>& problem, cudaStream_t stream) {
  constexpr int kShort = kWarp * kWidth, kLongGroups = static_cast<int>(kWarpClasses) / kShort;
  const int64_t bytes = problem.rows * row_bytes(problem, true);
  const LaunchShape warps{.grid = blocks_for(problem.rows, kThreads / kWarp), .block = kThreads, .bytes = bytes};
  if (problem.classes <= kShort) {
    launch<softmax_cross_entropy_warp_kernel<T, kWidth, 1>>(warps, stream, problem);
  } else if (problem.classes <= kWarpClasses) {
    launch<softmax_cross_entropy_warp_kernel<T, kWidth, kLongGroups>>(warps, stream, problem);
  } else {
    const LaunchShape blocks{.grid = blocks_for(problem.rows, 1), .block = kBlockThreads, .bytes = bytes};
    launch<softmax_cross_entropy_block_kernel<T, kWidth>>(blocks, stream, problem);
  }
}

}  // namespace

size_t softmax_cross_entropy_workspace_bytes(int64_t rows) { return static_cast<size_t>(rows) * sizeof(float); }

template <typename T>
void softmax_cross_entropy_cuda(const SoftmaxCrossEntropyCuda<T>& args, cudaStream_t stream) {
  constexpr int kWidth = kGroupWidth<T>;
  const SoftmaxCrossEntropy& spec = args.spec;
  auto* const row_losses = static_cast<float*>(args.workspace);
  const Problem<T> problem{.logits = args.logits,
                           .labels = args.labels,
                           .grad_logits = args.grad_logits,
                           .grad_scale = args.grad_scale,
                           .row_losses = row_losses,
                           .rows = spec.rows,
                           .classes = static_cast<int>(spec.classes),
                           .smoothing = static_cast<float>(spec.label_smoothing),
                           .others = static_cast<float>(spec.label_smoothing / static_cast<double>(spec.classes)),
                           .per_row = static_cast<float>(1 / spec.normalizer)};
  const LossSum total{.normalizer = spec.normalizer, .loss = args.loss, .accumulate = args.accumulate};
  if (spec.classes <= kThreadClasses && spec.rows > 0) {
    if (run_short_rows(problem, total, stream)) return;
  } else if (aligned_groups<kWidth>(args.logits, args.grad_logits) && spec.classes % kWidth == 0) {
    run_rows<T, kWidth>(problem, stream);
  } else {
    run_rows<T, 1>(problem, stream);
  }
  const int64_t bytes = (spec.rows + 1) * int64_t{sizeof(float)};
  launch<softmax_cross_entropy_sum_kernel>({.grid = 1, .block = kBlockThreads, .bytes = bytes}, stream, row_losses,
                                           spec.rows, total);
}

template void softmax_cross_entropy_cuda(const SoftmaxCrossEntropyCuda<float>&, cudaStream_t);
template void softmax_cross_entropy_cuda(const SoftmaxCrossEntropyCuda<Half>&, cudaStream_t);
template void softmax_cross_entropy_cuda(const SoftmaxCrossEntropyCuda<BFloat16>&, cudaStream_t);

}  // namespace engine::kernels
