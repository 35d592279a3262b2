#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "kernels/emulator/intrinsics.h"
#include "kernels/emulator/runtime_api.h"

namespace emulator {
/// Puts a kernel on a stream; body() runs one thread. `bytes` is what Operation::bytes says.
cudaError_t launch(std::string_view kernel, dim3 grid, dim3 block, cudaStream_t stream, std::function<void()> body,
                   int64_t bytes = 0);

struct Span {
  const void* pointer;
  size_t bytes;
};
/// Puts work of a library (a convolution, a matrix product) on a stream: runs on the host, may touch device memory, and
/// says what it reads and overwrites.
cudaError_t launch_library(std::string_view name, cudaStream_t stream, std::vector<Span> reads,
                           std::vector<Span> writes, std::function<void()> body);
}  // namespace emulator
