#pragma once
// Batch norm, ReLU and max pool in one pass, as a ResNet's stem has them: y = max_pool2d(relu(batch_norm(x))), training
// only, with the conventions of batch_norm.h and max_pool2d.h. Neither the normalised tensor nor its gradient is ever
// stored: forward reads x twice and writes the pooled y and a byte for each of its elements; backward reads x twice and
// writes grad_x. (Evaluation takes the separate kernels.)
//
// `_cpu` is the reference and needs no workspace; `_fast` is the same contract for float, threaded, bit-equal from run
// to run with the same number of threads, and for Half and BFloat16 as in batch_norm.h. Nothing may alias unless it
// says so.

#include <cstddef>
#include <cstdint>

#include "kernels/common/pool2d_shape.h"
#include "kernels/common/wide.h"

namespace engine::kernels {

/// Bytes of workspace (64-byte aligned) that both `_fast` functions need with the present number of threads.
int64_t bn_relu_max_pool_workspace_bytes(const Pool2dShape& shape);

/// A place in a window through which no gradient passes, because the maximum is not above 0.
inline constexpr uint8_t kNoWinner = 255;

template <typename T>
struct BnReluMaxPoolForward {
  Pool2dShape shape;  // of the pool; kernel_h * kernel_w <= 255; n * h * w at least 2
  double eps = 1e-5;
  double momentum = 0.1;
  const T* x = nullptr;             // [n, h, w, c]
  const Wide<T>* gamma = nullptr;   // [c]
  const Wide<T>* beta = nullptr;    // [c]
  T* y = nullptr;                   // [n, out_h, out_w, c], overwritten
  uint8_t* index = nullptr;         // like y, overwritten: the winner's place in its window, or kNoWinner
  Wide<T>* running_mean = nullptr;  // [c], updated unless null
  Wide<T>* running_var = nullptr;   // [c], likewise
  Wide<T>* saved_mean = nullptr;    // [c], overwritten
  Wide<T>* saved_invstd = nullptr;  // [c], overwritten
  std::byte* workspace = nullptr;
};

template <typename T>
void bn_relu_max_pool_forward_cpu(const BnReluMaxPoolForward<T>& args);
template <typename T>
void bn_relu_max_pool_forward_fast(const BnReluMaxPoolForward<T>& args);

template <typename T>
struct BnReluMaxPoolBackward {
  Pool2dShape shape;
  const T* x = nullptr;             // [n, h, w, c], as given to the forward pass
  const T* grad_y = nullptr;        // [n, out_h, out_w, c]
  const uint8_t* index = nullptr;   // from the forward pass
  const Wide<T>* gamma = nullptr;   // [c]
  const Wide<T>* mean = nullptr;    // [c], saved_mean
  const Wide<T>* invstd = nullptr;  // [c], saved_invstd
  T* grad_x = nullptr;              // [n, h, w, c], overwritten; may be x; null where it is not wanted
  Wide<T>* grad_gamma = nullptr;    // [c], overwritten
  Wide<T>* grad_beta = nullptr;     // [c], overwritten
  std::byte* workspace = nullptr;
};

template <typename T>
void bn_relu_max_pool_backward_cpu(const BnReluMaxPoolBackward<T>& args);
template <typename T>
void bn_relu_max_pool_backward_fast(const BnReluMaxPoolBackward<T>& args);

}  // namespace engine::kernels
