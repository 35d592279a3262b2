#include "kernels/conv2d/conv2d_select.h"

#include "kernels/common/vec.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_winograd.h"

namespace engine::kernels {
namespace {

// Measured on one Ice Lake core (AVX-512, 185 GFLOP/s of FP32) that other programs shared, ResNet-50 at batch 16, sums
// over each group in GFLOP/s of a direct convolution, forward / backward-data / backward-weights:
//   3x3 stride 1   winograd 222 / 227 / 186   oneDNN 128 /  83 / 107
//   3x3 stride 2   gemm     115 / 118 / 104   oneDNN 117 /  80 /  51
//   1x1 stride 1   gemm     119 / 117 / 105   oneDNN 118 / 104 /  76
//   1x1 stride 2   gemm     113 /  97 / 105   oneDNN 107 /  83 /  68
//   7x7 stem       gemm      84 /   - /  59   oneDNN 131 /   - /  58
// Forward the two are equal but for the stem; gemm takes them all, so that no primitives need be made.

// Below that many tiles the transforms of the filters cost more than they save.
constexpr int64_t kWinogradTiles = 32;

// With fewer channels oneDNN's kernels, which keep pixels in their vectors, beat products of short rows.
constexpr int64_t kFewestChannels = 16;

// Weight gradients are rows of whole patches, [r, s, c], so there few channels do no harm where the filter is large.
constexpr int64_t kLongPatch = 128;

}  // namespace

ConvAlgorithm conv2d_select(const Conv2dShape& shape, ConvDirection direction) {
  if (!kWideVectors || !conv2d_gemm_takes(shape)) return ConvAlgorithm::onednn;
  if (conv2d_winograd_takes(shape) && conv2d_winograd_tiles(shape) >= kWinogradTiles) return ConvAlgorithm::winograd;
  if (direction == ConvDirection::backward_weights && shape.r * shape.s * shape.c >= kLongPatch) {
    return ConvAlgorithm::gemm;
  }
  const bool few = shape.c < kFewestChannels || shape.k < kFewestChannels;
  return few ? ConvAlgorithm::onednn : ConvAlgorithm::gemm;
}

}  // namespace engine::kernels
