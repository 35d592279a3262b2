#include <map>
#include <mutex>

#include "kernels/common/cublaslt_library.h"
#include "kernels/common/library_handles.h"
#include "kernels/common/shared_library.h"

namespace engine::kernels {
namespace {

#if defined(ENGINE_CUBLAS_FOLDER)
constexpr const char* kFolder = ENGINE_CUBLAS_FOLDER;  // where the build found the library
#else
constexpr const char* kFolder = "";
#endif

struct Opened {
  SharedLibrary library;
  size_t version = 0;
  CublasLt functions{};
};

void find_all(const SharedLibrary& library, CublasLt& lt) {
  lt.matmul_desc_create = find_function<decltype(cublasLtMatmulDescCreate)>(library, "cublasLtMatmulDescCreate");
  lt.matmul_desc_destroy = find_function<decltype(cublasLtMatmulDescDestroy)>(library, "cublasLtMatmulDescDestroy");
  lt.matmul_desc_set =
      find_function<decltype(cublasLtMatmulDescSetAttribute)>(library, "cublasLtMatmulDescSetAttribute");
  lt.layout_create = find_function<decltype(cublasLtMatrixLayoutCreate)>(library, "cublasLtMatrixLayoutCreate");
  lt.layout_destroy = find_function<decltype(cublasLtMatrixLayoutDestroy)>(library, "cublasLtMatrixLayoutDestroy");
  lt.preference_create =
      find_function<decltype(cublasLtMatmulPreferenceCreate)>(library, "cublasLtMatmulPreferenceCreate");
  lt.preference_destroy =
      find_function<decltype(cublasLtMatmulPreferenceDestroy)>(library, "cublasLtMatmulPreferenceDestroy");
  lt.preference_set =
      find_function<decltype(cublasLtMatmulPreferenceSetAttribute)>(library, "cublasLtMatmulPreferenceSetAttribute");
  lt.heuristic = find_function<decltype(cublasLtMatmulAlgoGetHeuristic)>(library, "cublasLtMatmulAlgoGetHeuristic");
  lt.matmul = find_function<decltype(cublasLtMatmul)>(library, "cublasLtMatmul");
}

Opened open_cublaslt() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  Opened opened{.library = open_shared_library(name, kFolder)};
  const LibraryNeed need{"cuBLASLt", CUBLAS_VERSION};
  require_found(need, opened.library);
  opened.version = find_function<decltype(cublasLtGetVersion)>(opened.library, "cublasLtGetVersion")();
  require_version(need, opened.library, opened.version);
  find_all(opened.library, opened.functions);
  return opened;
}

const Opened& opened() {
  static const Opened library = open_cublaslt();
  return library;
}

}  // namespace

const CublasLt& cublaslt() { return opened().functions; }

cublasLtHandle_t cublaslt_handle(int device) {
  static const auto create = find_function<decltype(cublasLtCreate)>(opened().library, "cublasLtCreate");
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  const auto found = handles.find(device);
  if (found != handles.end()) return found->second;
  cublasLtHandle_t handle = nullptr;
  check_cublaslt(create(&handle), "cublasLtCreate");
  return handles[device] = handle;
}

void check_cublaslt(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  static const auto words =
      find_function<decltype(cublasLtGetStatusString)>(opened().library, "cublasLtGetStatusString");
  throw LibraryError(std::string(call) + ": " + words(status));
}

LibraryVersion cublaslt_version() {
  return {dotted_version(CUBLAS_VERSION), dotted_version(opened().version), opened().library.path};
}

}  // namespace engine::kernels
