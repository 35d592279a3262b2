#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/shares.h"
#include "kernels/common/storage_vec.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_patches.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

// A block of the result, [output channels, panels of [r, s, c]], and the rows that are copied to be summed at once.
constexpr int64_t kBlockRows = kColumnsDepth;
constexpr int64_t kBlockGroups = 512 / kPanel;
constexpr int64_t kBlockPanels = 512 / kPanel;

struct Split {
  int64_t k_blocks, panel_blocks, row_splits;
  int64_t blocks() const { return k_blocks * panel_blocks; }
  int64_t items() const { return blocks() * row_splits; }
};

Split split_of(const Conv2dShape& shape, int64_t rows, int64_t depth, int64_t threads) {
  Split split{(panels_of(shape.k) + kBlockGroups - 1) / kBlockGroups,
              (panels_of(depth) + kBlockPanels - 1) / kBlockPanels, 1};
  if (split.blocks() < threads) {
    split.row_splits = std::clamp<int64_t>(threads / split.blocks(), 1, (rows + kBlockRows - 1) / kBlockRows);
  } else {
    while (split.blocks() % threads != 0 && split.panel_blocks < panels_of(depth)) ++split.panel_blocks;
  }
  return split;
}

template <typename T>
struct Problem {
  Patches<T> patches;
  const T* grad_y;
  int64_t k, depth;
  Split split;
};

// Floats of a group of grad_y and of a panel of patches, and of all that one thread copies.
constexpr int64_t kGroupFloats = kBlockRows * kGroupStride;
constexpr int64_t kPanelFloats = kBlockRows * kPanel;
constexpr int64_t kGradFloats = kBlockGroups * kGroupFloats;
constexpr int64_t kThreadFloats = kGradFloats + kBlockPanels * kPanelFloats;

template <typename T>
void copy_grads(const Problem<T>& problem, Range rows, Range k, float* groups) {
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* from = problem.grad_y + row * problem.k;
    float* to = groups + (row - rows.begin) * kGroupStride;
    for (int64_t i = k.begin; i < k.end; i += kPanel, to += kGroupFloats) {
      widen(from + i, to, std::min(kPanel, k.end - i));
    }
  }
}

// One item: block `item / row_splits` summed over the rows of split `item % row_splits` into `result` [k, depth].
template <typename T>
void multiply_item(const Problem<T>& problem, int64_t item, float* result, float* buffer) {
  const Split& split = problem.split;
  const int64_t block = item / split.row_splits;
  const Range rows = share_of(problem.patches.rows(), item % split.row_splits, split.row_splits);
  const Range groups = share_of(panels_of(problem.k), block / split.panel_blocks, split.k_blocks);
  const Range panels = share_of(panels_of(problem.depth), block % split.panel_blocks, split.panel_blocks);
  const Range k{groups.begin * kPanel, std::min(problem.k, groups.end * kPanel)};
  const Range columns{panels.begin * kPanel, std::min(problem.depth, panels.end * kPanel)};
  // Where a block reads whole rows of memory, those of the next chunk follow this one's.
  const bool all_k = split.k_blocks == 1, all_columns = split.panel_blocks == 1 && problem.patches.dense();
  for (int64_t begin = rows.begin; begin < rows.end; begin += kBlockRows) {
    const Range chunk{begin, std::min(rows.end, begin + kBlockRows)};
    copy_grads(problem, chunk, k, buffer);
    copy_patch_panels(problem.patches, chunk, columns, buffer + kGradFloats, kPanelFloats, kPanel);
    gemm_columns({.a = buffer,
                  .a_stride = kGroupFloats,
                  .b = buffer + kGradFloats,
                  .b_stride = kPanelFloats,
                  .rows = k.end - k.begin,
                  .columns = columns.end - columns.begin,
                  .depth = chunk.end - chunk.begin,
                  .c = result + k.begin * problem.depth + columns.begin,
                  .c_stride = problem.depth,
                  .accumulate = begin > rows.begin,
                  .ahead = {ahead_of(problem.grad_y + chunk.end * problem.k, all_k ? kBlockRows * problem.k : 0),
                            ahead_of(problem.patches.image + chunk.end * problem.depth,
                                     all_columns ? kBlockRows * problem.depth : 0)}});
  }
}

void add_partial_sums(const float* partial, int64_t splits, int64_t count, float* result) {
  parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t split = 0; split < splits; ++split) {
      for (int64_t i = begin; i < end; ++i) result[i] += partial[split * count + i];
    }
  });
}

}  // namespace

template <typename T>
void conv2d_backward_weights_gemm(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape) {
  const Patches<T> patches = patches_of(x, shape);
  const int64_t threads = max_threads(), depth = patches.depth(), count = shape.weight_numel();
  const Problem<T> problem{patches, grad_y, shape.k, depth, split_of(shape, patches.rows(), depth, threads)};
  const int64_t parts = std::min(threads, problem.split.items()), partials = (problem.split.row_splits - 1) * count;
  const int64_t sum_floats = kNarrow<T> ? count : 0;
  Scratch scratch(Scratch::padded_floats(partials) + Scratch::padded_floats(parts * kThreadFloats) +
                  Scratch::padded_floats(sum_floats));
  float *partial = scratch.take_floats(partials), *blocks = scratch.take_floats(parts * kThreadFloats);
  float* sums = nullptr;
  if constexpr (kNarrow<T>) {
    sums = scratch.take_floats(sum_floats);
  } else {
    sums = grad_weight;
  }
  parallel_shares(problem.split.items(), parts, [&](int64_t part, Range items) {
    for (int64_t item = items.begin; item < items.end; ++item) {
      const int64_t split = item % problem.split.row_splits;
      float* result = split == 0 ? sums : partial + (split - 1) * count;
      multiply_item(problem, item, result, blocks + part * kThreadFloats);
    }
  });
  if (problem.split.row_splits > 1) add_partial_sums(partial, problem.split.row_splits - 1, count, sums);
  if constexpr (kNarrow<T>) {
    parallel_for(count, 1 << 15,
                 [=](int64_t begin, int64_t end) { narrow(sums + begin, grad_weight + begin, end - begin); });
  }
}

template void conv2d_backward_weights_gemm(const float*, const float*, float*, const Conv2dShape&);
template void conv2d_backward_weights_gemm(const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_backward_weights_gemm(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);

}  // namespace engine::kernels
