#pragma once
// Convolutions by kernels of the project's own, for builds without cuDNN: implicit matrix products ("Convolutional
// neural networks on the GPU without im2col": Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014,
// section 3.2). A block computes a tile of 64 x 64 results, reading both operands through shared memory, FP32 sums in
// registers. Bound by arithmetic without tensor cores, not by memory; conv2d_device.h has the fast way.
//
// Shapes, layouts and definitions are those of conv2d.h; T is float, Half or BFloat16. Results are overwritten, and the
// same at every run. Pointers are aligned to their elements.

#include <cstdint>

#include "kernels/common/device.h"
#include "kernels/common/half.h"
#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

/// Throws std::invalid_argument for a shape that is not valid() or has 2^31 pixels or filter values or more, or 2^16
/// groups.
void require_direct(const Conv2dShape& shape);

/// x [n, h, w, c], weight [k, r, s, c / groups], y [n, out_h, out_w, k].
template <typename T>
void conv2d_forward_direct_cuda(const T* x, const T* weight, T* y, const Conv2dShape& shape, cudaStream_t stream);

template <typename T>
void conv2d_backward_data_direct_cuda(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape,
                                      cudaStream_t stream);

/// FP32 sums of parts of the pixels, which a second kernel adds in a fixed order. May be 0.
int64_t conv2d_backward_weights_direct_workspace_bytes(const Conv2dShape& shape);

template <typename T>
struct ConvBackwardWeightsDirect {
  const T* x = nullptr;
  const T* grad_y = nullptr;
  T* grad_weight = nullptr;
  void* workspace = nullptr;  // as many bytes as said above, 16-byte aligned
};
template <typename T>
void conv2d_backward_weights_direct_cuda(const ConvBackwardWeightsDirect<T>& args, const Conv2dShape& shape,
                                         cudaStream_t stream);

}  // namespace engine::kernels
