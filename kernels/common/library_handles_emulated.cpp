#include "kernels/common/library_handles.h"

namespace engine::kernels {

LibraryVersion cudnn_version() { return {}; }
LibraryVersion cublaslt_version() { return {}; }

}  // namespace engine::kernels
