#pragma once
// The one header that knows which compiler reads a kernel. With ENGINE_CUDA it is NVIDIA's runtime; without, the
// emulator's (kernels/emulator), which declares the same names and runs the same sources on the CPU. Host code uses the
// runtime by the same names, so that streams, events, graphs and pools are exercised on machines without a GPU, too.

#if defined(ENGINE_CUDA)
#include <cuda_runtime.h>

/// An array in shared memory, one for the block.
#define ENGINE_SHARED(type, name, count) __shared__ type name[count]
#else
#include "kernels/emulator/cuda_runtime.h"

// A lambda has a type of its own at each place where it is written, so each array gets a slot of its own, in templates,
// too.
#define ENGINE_SHARED(type, name, count) type(&name)[count] = ::emulator::shared_slot<type[count]>([] {})
#endif

namespace engine::kernels {

/// Whether this build's device is a real GPU; else it is the emulated one.
#if defined(ENGINE_CUDA)
inline constexpr bool kBuiltWithCuda = true;
#else
inline constexpr bool kBuiltWithCuda = false;
#endif

inline constexpr int kWarp = 32;

}  // namespace engine::kernels
