#pragma once
// Batch norm, ReLU and max pool in one pass on the device: the contract of bn_relu_max_pool.h for x, y and their
// gradients stored as float, Half or BFloat16, with the arithmetic of batch_norm_cuda.h and its way of summing up.
// Neither the normalised tensor nor its gradient is ever stored: backward gathers, for each element of x, from the
// windows that chose it.
//
// Device memory moved, in bytes; x, y and their gradients once or twice, index one byte an element of y:
//   forward   2 x + y + index                          x twice, as y needs the statistics of all of x
//   backward  2 (x + grad_y + index) + grad_x          likewise
// The stem's window (3x3, stride 2, padding 1) makes forward ask for 2.25 times the bytes of x, the greatest part of
// which lies in the L1 cache, because a block works on a band of neighbouring lines. Backward works on squares of 2x2
// elements of x, which lie under the same four outputs, and asks for grad_y and index 4 times, likewise. Vectors of
// channels are loaded as in batch_norm_cuda.h, which in small tensors leaves 0.72 of what requests touch in use.
// For that window, packs of 16 bytes are moved where c is a multiple of 8, all tensors start at multiples of 16 bytes
// and index at one of 8. Elsewhere, and for other windows, there is a slower path of single elements.

#include <cstddef>
#include <cstdint>

#include "kernels/bn_relu_max_pool/bn_relu_max_pool.h"
#include "kernels/common/device.h"
#include "kernels/common/half.h"
#include "kernels/common/pool2d_shape.h"

namespace engine::kernels {

/// Bytes of workspace (256-byte aligned) that both functions need.
int64_t bn_relu_max_pool_cuda_workspace_bytes(const Pool2dShape& shape);

template <typename T>
struct BnReluMaxPoolForwardCuda {
  Pool2dShape shape;  // of the pool; kernel_h * kernel_w <= 255; n * h * w at least 2; h * w < 2^28
  double eps = 1e-5;
  double momentum = 0.1;
  const T* x = nullptr;           // [n, h, w, c]
  const float* gamma = nullptr;   // [c]
  const float* beta = nullptr;    // [c]
  T* y = nullptr;                 // [n, out_h, out_w, c], overwritten
  uint8_t* index = nullptr;       // like y, overwritten: the winner's place in its window, or kNoWinner
  float* running_mean = nullptr;  // [c], updated unless null
  float* running_var = nullptr;   // [c], likewise
  float* saved_mean = nullptr;    // [c], overwritten
  float* saved_invstd = nullptr;  // [c], overwritten
  std::byte* workspace = nullptr;
};

template <typename T>
void bn_relu_max_pool_forward_cuda(const BnReluMaxPoolForwardCuda<T>& args, cudaStream_t stream);

template <typename T>
struct BnReluMaxPoolBackwardCuda {
  Pool2dShape shape;
  const T* x = nullptr;            // [n, h, w, c], as given to the forward pass
  const T* grad_y = nullptr;       // [n, out_h, out_w, c]
  const uint8_t* index = nullptr;  // from the forward pass
  const float* gamma = nullptr;    // [c]
  const float* mean = nullptr;     // [c], saved_mean
  const float* invstd = nullptr;   // [c], saved_invstd
  T* grad_x = nullptr;             // [n, h, w, c], overwritten; may be x; null where it is not wanted
  float* grad_gamma = nullptr;     // [c], overwritten
  float* grad_beta = nullptr;      // [c], overwritten
  std::byte* workspace = nullptr;
};

template <typename T>
void bn_relu_max_pool_backward_cuda(const BnReluMaxPoolBackwardCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
