#pragma once
// select.h in one launch each. parts: [count] in device memory, from kept_parts, of buffers in device memory that have
// `bytes` together.

#include "kernels/common/device.h"
#include "kernels/select/select.h"

namespace engine::kernels {

/// kept = live, always. Moves twice the buffers' bytes.
void keep_cuda(const KeptBuffer* parts, int count, int64_t bytes, cudaStream_t stream);

/// live = kept where the step was not applied, which moves twice the buffers' bytes; else nothing.
void restore_if_skipped_cuda(const StepState* state, const KeptBuffer* parts, int count, int64_t bytes,
                             cudaStream_t stream);

}  // namespace engine::kernels
