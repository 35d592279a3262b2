#include <string>

#include "engine/dist/nccl_library.h"
#include "kernels/common/shared_library.h"

namespace engine {
namespace {

#if defined(ENGINE_NCCL_FOLDER)
constexpr const char* kFolder = ENGINE_NCCL_FOLDER;  // where the build found the library
#else
constexpr const char* kFolder = "";
#endif

Nccl open_nccl() {
  const kernels::SharedLibrary library =
      kernels::open_shared_library("libnccl.so." + std::to_string(NCCL_MAJOR), kFolder);
  const kernels::LibraryNeed need{"NCCL", NCCL_VERSION_CODE};
  kernels::require_found(need, library);
  const auto find = [&]<typename Function>(Function*& target, const char* name) {
    target = kernels::find_function<Function>(library, name);
  };
  int version = 0;
  kernels::find_function<decltype(ncclGetVersion)>(library, "ncclGetVersion")(&version);
  kernels::require_version(need, library, static_cast<size_t>(version));
  Nccl found{};
  find(found.get_unique_id, "ncclGetUniqueId");
  find(found.comm_init, "ncclCommInitRankConfig");
  find(found.comm_finalize, "ncclCommFinalize");
  find(found.comm_destroy, "ncclCommDestroy");
  find(found.comm_abort, "ncclCommAbort");
  find(found.async_error, "ncclCommGetAsyncError");
  find(found.error_string, "ncclGetErrorString");
  find(found.last_error, "ncclGetLastError");
  find(found.group_start, "ncclGroupStart");
  find(found.group_end, "ncclGroupEnd");
  find(found.all_reduce, "ncclAllReduce");
  find(found.reduce, "ncclReduce");
  find(found.broadcast, "ncclBroadcast");
  find(found.reduce_scatter, "ncclReduceScatter");
  find(found.all_gather, "ncclAllGather");
  return found;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl library = open_nccl();
  return library;
}

}  // namespace engine
