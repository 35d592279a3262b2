#pragma once
// input.h on the device.

#include "kernels/common/device.h"
#include "kernels/input/input.h"

namespace engine::kernels {

/// input_cpu's contract; T float, Half or BFloat16, arithmetic in float. Pointers in device memory; pictures and y
/// aligned to 16 bytes. In float the results are input_cpu's, or 1 unit in the last place of the larger summand beside
/// them where only one of the compilers fuses multiplication and addition. Bytes a pixel: c + c_padded * sizeof(T).
/// Where flipped rows of other widths than multiples of 32 pixels meet within a warp, two of its reads of shared memory
/// may fall into one bank.
template <typename T>
void input_cuda(const InputSpec& spec, const uint8_t* pictures, const uint8_t* flips, T* y, cudaStream_t stream);

}  // namespace engine::kernels
