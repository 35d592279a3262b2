#pragma once
// The only place that launches kernels.
//
//   launch<scale_kernel<float>>({.grid = blocks_for(n, 256), .block = 256}, stream, x, 2.0F, n);
//
// The kernel is a template argument, so that its name is known to the emulator and to profilers.

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "kernels/common/cuda_error.h"
#include "kernels/common/device.h"

namespace engine::kernels {

struct LaunchShape {
  dim3 grid = dim3(1);
  dim3 block = dim3(1);
  int64_t bytes =
      0;  // moved through device memory, by the formula of the op's header; for the kernel report; 0: not given
};

/// Blocks of `per_block` items that cover count of them. Throws std::length_error beyond what a grid can hold.
inline unsigned blocks_for(int64_t count, int64_t per_block) {
  const int64_t blocks = (count + per_block - 1) / per_block;
  if (blocks > std::numeric_limits<int32_t>::max()) throw std::length_error("grid of more than 2^31 - 1 blocks");
  return static_cast<unsigned>(blocks);
}

/// A kernel's name as its source spells it, without template arguments: "scale_kernel"; where the compiler does not
/// tell (nvcc), all that it tells.
template <auto kKernel>
constexpr std::string_view kernel_name() {
  constexpr std::string_view all = __PRETTY_FUNCTION__;
  constexpr size_t marked = all.find("kKernel = ");
  if constexpr (marked == std::string_view::npos) {
    return all;
  } else {
    constexpr size_t end = all.find("_kernel", marked) + std::string_view("_kernel").size();
    constexpr size_t begin = all.find_last_of(":&( =", end - 1) + 1;
    return all.substr(begin, end - begin);
  }
}

namespace detail {

/// The name becomes a string only where there is something to say.
inline void check_launch(cudaError_t status, std::string_view kernel) {
  if (status != cudaSuccess) throw CudaError(status, std::string(kernel).c_str());
}

template <auto kKernel>
struct Launcher;

template <typename... Parameters, void (*kKernel)(Parameters...)>
struct Launcher<kKernel> {
  static void run(const LaunchShape& shape, cudaStream_t stream, Parameters... arguments) {
#if defined(ENGINE_CUDA)
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.stream = stream;
    check_launch(cudaLaunchKernelEx(&config, kKernel, arguments...), kernel_name<kKernel>());
#else
    check_launch(
        ::emulator::launch(
            kernel_name<kKernel>(), shape.grid, shape.block, stream, [=] { kKernel(arguments...); }, shape.bytes),
        kernel_name<kKernel>());
#endif
  }
};

}  // namespace detail

/// Runs a kernel on a stream, after what the stream holds already. An empty grid launches nothing. Throws CudaError
/// where the launch is refused; faults of the running kernel surface at a later call, as CUDA's do.
template <auto kKernel, typename... Arguments>
void launch(const LaunchShape& shape, cudaStream_t stream, Arguments... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  detail::Launcher<kKernel>::run(shape, stream, arguments...);
}

}  // namespace engine::kernels
