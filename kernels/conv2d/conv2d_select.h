#pragma once

#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

enum class ConvAlgorithm {
  onednn,    // oneDNN's primitive on NHWC pictures
  gemm,      // products of patches with packed filters (conv2d_gemm.h)
  winograd,  // minimal filtering of 3x3 filters (conv2d_winograd.h)
};

/// The algorithm that the fast path takes for a shape and direction, by rules that were measured on ResNet-50's
/// convolutions (bench/conv2d_bench.cpp); the body says which. It depends on the shape and the processor's vectors
/// alone, so a program's results do not change with its threads or its history.
ConvAlgorithm conv2d_select(const Conv2dShape& shape, ConvDirection direction);

}  // namespace engine::kernels
