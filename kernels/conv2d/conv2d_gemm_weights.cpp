#include <algorithm>

#include "kernels/common/onednn.h"
#include "kernels/common/shares.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_patches.h"
#include "kernels/matmul/gemm.h"

namespace engine::kernels {
namespace {

// A block of the result and the rows that lead to it, sized for a second-level cache of 1.25 MB.
constexpr int64_t kBlockRows = 256;     // of patches and of grad_y
constexpr int64_t kBlockK = 256;        // output channels
constexpr int64_t kBlockPanels = 256 / kLanes;  // of [r, s, c]
constexpr int64_t kSkew = 16;           // keeps rows of a copied block in different sets of the cache

struct Split {
  int64_t k_blocks, panel_blocks, row_splits;
  int64_t blocks() const { return k_blocks * panel_blocks; }
  int64_t items() const { return blocks() * row_splits; }
};

Split split_of(const Conv2dShape& shape, int64_t rows, int64_t depth, int64_t threads) {
  Split split{(shape.k + kBlockK - 1) / kBlockK, (panels_of(depth) + kBlockPanels - 1) / kBlockPanels, 1};
  if (split.blocks() < threads) {
    split.row_splits = std::clamp<int64_t>(threads / split.blocks(), 1, (rows + kBlockRows - 1) / kBlockRows);
  } else {
    while (split.blocks() % threads != 0 && split.panel_blocks < panels_of(depth)) ++split.panel_blocks;
  }
  return split;
}

struct Problem {
  Patches patches;
  const float* grad_y;
  int64_t k, depth;
  Split split;
};

// Floats of one thread's two copied blocks.
constexpr int64_t kGradFloats = kBlockRows * (kBlockK + kSkew);
constexpr int64_t kPatchFloats = kBlockRows * (kBlockPanels * kPanel + kSkew);

// One item: block `item / row_splits` summed over the rows of split `item % row_splits` into `result` [k, depth].
void multiply_item(const Problem& problem, int64_t item, float* result, float* grads, float* patches) {
  const Split& split = problem.split;
  const int64_t block = item / split.row_splits;
  const Range rows = share_of(problem.patches.rows(), item % split.row_splits, split.row_splits);
  const Range k = share_of(problem.k, block / split.panel_blocks, split.k_blocks);
  const Range panels = share_of(panels_of(problem.depth), block % split.panel_blocks, split.panel_blocks);
  const Range columns{panels.begin * kPanel, std::min(problem.depth, panels.end * kPanel)};
  const int64_t grad_stride = kBlockK + kSkew, patch_stride = kBlockPanels * kPanel + kSkew;
  for (int64_t begin = rows.begin; begin < rows.end; begin += kBlockRows) {
    const int64_t end = std::min(rows.end, begin + kBlockRows);
    for (int64_t row = begin; row < end; ++row) {
      copy_floats(problem.grad_y + row * problem.k + k.begin, grads + (row - begin) * grad_stride, k.end - k.begin);
    }
    copy_patches(problem.patches, {begin, end}, columns, patches, patch_stride);
    gemm_columns({.a = grads,
                  .a_stride = grad_stride,
                  .b = patches,
                  .b_stride = patch_stride,
                  .rows = k.end - k.begin,
                  .columns = columns.end - columns.begin,
                  .depth = end - begin,
                  .c = result + k.begin * problem.depth + columns.begin,
                  .c_stride = problem.depth,
                  .accumulate = begin > rows.begin});
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

void conv2d_backward_weights_gemm(const float* x, const float* grad_y, float* grad_weight, const Conv2dShape& shape) {
  const Patches patches = patches_of(x, shape);
  const int64_t threads = max_threads(), depth = patches.depth(), count = shape.weight_numel();
  const Problem problem{patches, grad_y, shape.k, depth, split_of(shape, patches.rows(), depth, threads)};
  const int64_t parts = std::min(threads, problem.split.items()), partials = (problem.split.row_splits - 1) * count;
  Scratch scratch(Scratch::padded_floats(partials) + Scratch::padded_floats(parts * (kGradFloats + kPatchFloats)));
  float *partial = scratch.take_floats(partials), *blocks = scratch.take_floats(parts * (kGradFloats + kPatchFloats));
  parallel_shares(problem.split.items(), parts, [&](int64_t part, Range items) {
    float* grads = blocks + part * (kGradFloats + kPatchFloats);
    for (int64_t item = items.begin; item < items.end; ++item) {
      const int64_t split = item % problem.split.row_splits;
      float* result = split == 0 ? grad_weight : partial + (split - 1) * count;
      multiply_item(problem, item, result, grads, grads + kGradFloats);
    }
  });
  if (problem.split.row_splits > 1) add_partial_sums(partial, problem.split.row_splits - 1, count, grad_weight);
}

}  // namespace engine::kernels
