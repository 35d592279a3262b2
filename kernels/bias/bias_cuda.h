#pragma once
// bias.h's contract on the device. T: float, Half, BFloat16. Any alignment; 16 bytes at a time where pointers are
// aligned to 16 bytes and rows hold a multiple of 16 bytes. The same bits from run to run.

#include <cstddef>
#include <cstdint>

#include "kernels/common/device.h"

namespace engine::kernels {

template <typename T>
struct BiasForwardCuda {
  const T* x = nullptr;     // [rows, channels]
  const T* bias = nullptr;  // [channels]
  T* y = nullptr;           // [rows, channels], overwritten; may be x
  int64_t rows = 0;
  int64_t channels = 0;
  bool relu = false;
};

/// y = x + bias, then max(y, 0) (NaN stays NaN) where relu is set. The sum is taken in float and rounded once. Moves
/// 2 * rows * channels * sizeof(T) bytes, and the bias; warps move runs of whole rows, and runs that end within a
/// sector of 32 bytes (10 channels) move it twice.
template <typename T>
void bias_forward_cuda(const BiasForwardCuda<T>& args, cudaStream_t stream);

/// Bytes of workspace of the backward pass.
size_t bias_backward_workspace_bytes(int64_t rows, int64_t channels);

template <typename T>
struct BiasBackwardCuda {
  const T* grad_y = nullptr;   // [rows, channels]
  float* grad_bias = nullptr;  // [channels], overwritten
  int64_t rows = 0;
  int64_t channels = 0;
  void* workspace = nullptr;  // bias_backward_workspace_bytes(rows, channels), for floats
};

/// grad_bias = sum of grad_y over rows, in float: threads sum some rows each, blocks their threads, a second kernel the
/// blocks. All orders are fixed by (rows, channels), T and alignment. rows = 0 gives zeros. Moves rows * channels *
/// sizeof(T) bytes; the workspace is written and read, at most 1/4 byte an element, and less the more rows there are.
/// Runs of rows as in the forward pass: 0.78 of what is moved is used with 4 rows of 10 floats, where 0.89 is the most
/// that whole sectors allow, 0.62 with halves.
template <typename T>
void bias_backward_cuda(const BiasBackwardCuda<T>& args, cudaStream_t stream);

}  // namespace engine::kernels
