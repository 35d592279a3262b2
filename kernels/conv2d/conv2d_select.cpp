#include "kernels/conv2d/conv2d_select.h"

#include "kernels/common/vec.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_winograd.h"

namespace engine::kernels {
namespace {

// Below that many tiles the transforms of the filters cost more than they save.
constexpr int64_t kWinogradTiles = 32;

// oneDNN reads its own filter layout with the full registers of few channels; a product would pad or copy them.
constexpr int64_t kFewestChannels = 16;

}  // namespace

ConvAlgorithm conv2d_select(const Conv2dShape& shape, ConvDirection direction) {
  if (!kWideVectors || !conv2d_gemm_takes(shape)) return ConvAlgorithm::onednn;
  if (conv2d_winograd_takes(shape) && conv2d_winograd_tiles(shape) >= kWinogradTiles) return ConvAlgorithm::winograd;
  if (shape.c < kFewestChannels || shape.k < kFewestChannels) return ConvAlgorithm::onednn;
  if (direction == ConvDirection::forward && shape.r * shape.s > 1) return ConvAlgorithm::onednn;
  return ConvAlgorithm::gemm;
}

}  // namespace engine::kernels
