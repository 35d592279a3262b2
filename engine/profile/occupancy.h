#pragma once
// How many of a multiprocessor's warps a kernel can keep resident, from what the compiler says about it; and those
// numbers as the build wrote them down (ptxas.json). Definitions: NVIDIA, "CUDA C++ Programming Guide", compute
// capabilities, and "CUDA C++ Best Practices Guide", occupancy.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace engine {

/// What a kernel takes, as ptxas tells it: the worst of its instantiations.
struct KernelResources {
  int registers = 0;   // of a thread
  int64_t spills = 0;  // bytes of a thread that are written to memory and read back for want of registers
  int64_t stack = 0;   // bytes of a thread
  int64_t shared = 0;  // bytes of a block, those of ENGINE_SHARED arrays
};

/// What a multiprocessor has, and in what portions it gives it away.
struct MultiprocessorLimits {
  int warps = 64;
  int blocks = 32;
  int registers = 65536;
  int registers_per_warp_portion = 256;
  int64_t shared_bytes = 228 * 1024;
  int64_t shared_portion = 128;
  int64_t shared_per_block_reserved = 1024;
};
inline constexpr MultiprocessorLimits kSm90{};  // H100, H200

/// Warps resident at most over those that fit, from 0 (the block can never run: more than 1024 threads or 255
/// registers, or more than a multiprocessor has) to 1. `block` is the number of threads.
double occupancy(const KernelResources& kernel, int block, const MultiprocessorLimits& limits = kSm90);

/// ptxas.json of scripts/check_ptxas.py by kernel name, from the folder `binary_folder` or the one above it. Empty
/// where there is none (no nvcc was there), or it cannot be read.
std::map<std::string, KernelResources> read_kernel_resources(const std::string& binary_folder);

}  // namespace engine
