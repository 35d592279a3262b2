#include <cudnn.h>

#include <map>

#include "kernels/common/cudnn_library.h"
#include "kernels/common/library_handles.h"
#include "kernels/common/shared_library.h"

namespace engine::kernels {
namespace {

#if defined(ENGINE_CUDNN_FOLDER)
constexpr const char* kFolder = ENGINE_CUDNN_FOLDER;  // where the build found the library
#else
constexpr const char* kFolder = "";
#endif

struct Cudnn {
  SharedLibrary library;
  size_t version = 0;
};

Cudnn open_cudnn() {
  const std::string name = "libcudnn.so." + std::to_string(CUDNN_MAJOR);
  Cudnn cudnn{open_shared_library(name, kFolder)};
  const LibraryNeed need{"cuDNN", CUDNN_VERSION};
  require_found(need, cudnn.library);
  cudnn.version = find_function<decltype(cudnnGetVersion)>(cudnn.library, "cudnnGetVersion")();
  require_version(need, cudnn.library, cudnn.version);
  return cudnn;
}

const Cudnn& cudnn() {
  static const Cudnn opened = open_cudnn();
  return opened;
}

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  static const auto words = find_function<decltype(cudnnGetErrorString)>(cudnn().library, "cudnnGetErrorString");
  throw LibraryError(std::string(call) + ": " + words(status));
}

/// The handles of one thread.
class Handles {
 public:
  Handles() = default;
  ~Handles() {
    const auto destroy = find_function<decltype(cudnnDestroy)>(cudnn().library, "cudnnDestroy");
    for (const auto& [device, handle] : handles_) destroy(handle);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  cudnnHandle_t get(int device) {
    const auto found = handles_.find(device);
    if (found != handles_.end()) return found->second;
    static const auto create = find_function<decltype(cudnnCreate)>(cudnn().library, "cudnnCreate");
    cudnnHandle_t handle = nullptr;
    check(create(&handle), "cudnnCreate");
    handles_[device] = handle;
    return handle;
  }

 private:
  std::map<int, cudnnHandle_t> handles_;
};

}  // namespace

void* cudnn_library() { return cudnn().library.handle; }

cudnnContext* cudnn_handle(int device, cudaStream_t stream) {
  static const auto set_stream = find_function<decltype(cudnnSetStream)>(cudnn().library, "cudnnSetStream");
  thread_local Handles handles;
  const cudnnHandle_t handle = handles.get(device);
  check(set_stream(handle, stream), "cudnnSetStream");
  return handle;
}

LibraryVersion cudnn_version() {
  return {dotted_version(CUDNN_VERSION), dotted_version(cudnn().version), cudnn().library.path};
}

}  // namespace engine::kernels
