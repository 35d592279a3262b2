#pragma once
// cuDNN as found at run time (library_handles.h). For builds with CUDA.

#include "kernels/common/device.h"

struct cudnnContext;  // a cudnnHandle_t points to one

namespace engine::kernels {

/// The library as dlopen() gave it. Throws LibraryError where it is missing or does not fit the build.
void* cudnn_library();

/// This thread's handle on a device, which must be current, set to put work on `stream`; lives as long as the thread.
/// Throws LibraryError.
cudnnContext* cudnn_handle(int device, cudaStream_t stream);

}  // namespace engine::kernels
