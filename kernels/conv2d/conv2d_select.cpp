#include "kernels/conv2d/conv2d_select.h"

#include "kernels/common/vec.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_winograd.h"

namespace engine::kernels {
namespace {

// Measured on an Ice Lake core (AVX-512, 185 GFLOP/s of FP32), ResNet-50 at batch 4 to 16, in GFLOP/s of a direct
// convolution, forward / backward-data / backward-weights:
//   3x3 stride 1   winograd 170-290 / 160-300 / 165-270, gemm 80-135, oneDNN 65-139 / 68-89 / 58-118
//   3x3 stride 2   gemm 105-120 / 99-123 / 92-104,        oneDNN 70-126 / 69-82 / 40-58
//   1x1            gemm 80-134 / 80-134 / 75-125,         oneDNN 77-136 / 52-134 / 52-90
//   7x7 stem       gemm 84 / - / 57,                      oneDNN 100-147 / - / 41-59
// oneDNN's forward 1x1 is as fast as gemm in the mean; gemm wins where pictures do not fit into the cache.

// Below that many tiles the transforms of the filters cost more than they save.
constexpr int64_t kWinogradTiles = 32;

// With fewer channels oneDNN's kernels, which keep pixels in their vectors, beat products of short rows.
constexpr int64_t kFewestChannels = 16;

}  // namespace

ConvAlgorithm conv2d_select(const Conv2dShape& shape, ConvDirection) {
  if (!kWideVectors || !conv2d_gemm_takes(shape)) return ConvAlgorithm::onednn;
  if (conv2d_winograd_takes(shape) && conv2d_winograd_tiles(shape) >= kWinogradTiles) return ConvAlgorithm::winograd;
  const bool few = shape.c < kFewestChannels || shape.k < kFewestChannels;
  return few ? ConvAlgorithm::onednn : ConvAlgorithm::gemm;
}

}  // namespace engine::kernels
