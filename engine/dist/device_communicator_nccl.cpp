#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "engine/core/error.h"
#include "engine/dist/agreement.h"
#include "engine/dist/device_communicator.h"
#include "engine/dist/nccl_library.h"
#include "kernels/common/cuda_error.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

// A step takes milliseconds; looking this often costs nothing.
constexpr std::chrono::microseconds kLookInterval{50};

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
      return ncclUint8;
  }
  throw Error("[nccl] no such type");
}

ncclRedOp_t operation_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::average:
      return ncclAvg;
    case ReduceOp::max:
      return ncclMax;
  }
  throw Error("[nccl] no such reduction");
}

bool are_equal(const Shards& parts) {
  for (int rank = 0; rank < parts.size(); ++rank) {
    const kernels::Range part = parts.part(rank), first = parts.part(0);
    if (part.end - part.begin != first.end - first.begin) return false;
  }
  return true;
}

/// A communicator that does not block: calls return while they are under way, so that every wait can end.
class NcclDevices final : public DeviceCommunicator {
 public:
  NcclDevices(Communicator& processes, Device device) : DeviceCommunicator(processes), stream_(device) {
    use_device(device);
    ncclUniqueId id{};
    do_together(processes, "NCCL", [&] {
      const Nccl& library = nccl();
      if (processes.rank() == 0) require(library.get_unique_id(&id), "ncclGetUniqueId");
    });
    processes.broadcast("NCCL's id", {id.internal, sizeof id.internal, DType::u8});
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto watch = processes.watch("NCCL's start");
    const ncclResult_t started = nccl().comm_init(&communicator_, processes.size(), id, processes.rank(), &config);
    try {
      settle(started, "ncclCommInitRankConfig");
    } catch (...) {
      abort();
      throw;
    }
  }

  ~NcclDevices() override {
    if (communicator_ == nullptr) return;
    try {
      check();
      settle(nccl().comm_finalize(communicator_), "ncclCommFinalize");
      nccl().comm_destroy(communicator_);
    } catch (const std::exception&) {
      abort();  // the failure has been told, or will be by the processes' communicator
    }
  }

  const Stream& stream() const override { return stream_; }

  void synchronize(const Stream& stream) override {
    try {
      const auto watch = processes().watch("collectives on " + name_of(stream.device()));
      for (;;) {
        const cudaError_t status = cudaStreamQuery(stream.handle());
        if (status != cudaErrorNotReady) break;
        check();
        std::this_thread::sleep_for(kLookInterval);
      }
      check();
    } catch (const PeerError&) {
      abort();
      throw;
    }
    stream.synchronize();
  }

  void check() override {
    processes().check();
    if (communicator_ == nullptr) throw PeerError("NCCL: collectives have failed before");
    ncclResult_t status = ncclSuccess;
    require(nccl().async_error(communicator_, &status), "ncclCommGetAsyncError");
    if (status != ncclInProgress) require(status, "a collective");
  }

 protected:
  void put(Collective collective, const Stream& stream) override {
    if (communicator_ == nullptr) return;
    use_device(stream.device());
    require(nccl().group_start(), "ncclGroupStart");
    const ncclResult_t called = call(collective, stream.handle());
    const ncclResult_t ended = nccl().group_end();
    if (called != ncclInProgress) require(called, name_of(collective.kind));
    settle(ended, name_of(collective.kind));
  }

 private:
  void require(ncclResult_t status, const char* what) const {
    if (status == ncclSuccess) return;
    const char* more = communicator_ == nullptr ? "" : nccl().last_error(communicator_);
    throw PeerError(fmt::format("NCCL: {}: {} {}", what, nccl().error_string(status), escaped(more)),
                    "NCCL_DEBUG=INFO shows what NCCL does");
  }

  /// Waits until a call is no more under way.
  void settle(ncclResult_t status, const char* what) {
    const auto end = Clock::now() + std::chrono::duration<double>(processes().timeout_seconds());
    while (status == ncclInProgress) {
      std::this_thread::sleep_for(kLookInterval);
      processes().check();
      if (Clock::now() > end) throw PeerError(fmt::format("NCCL: {}: not over in time", what));
      const ncclResult_t asked = nccl().async_error(communicator_, &status);
      require(asked, "ncclCommGetAsyncError");
    }
    require(status, what);
  }

  void abort() {
    if (communicator_ != nullptr) nccl().comm_abort(communicator_);
    communicator_ = nullptr;
  }

  ncclResult_t call(const Collective& what, cudaStream_t stream) const {
    const ElementBuffer& buffer = what.buffer;
    const auto count = static_cast<size_t>(buffer.count);
    const ncclDataType_t type = type_of(buffer.dtype);
    switch (what.kind) {
      case CollectiveKind::all_reduce:
        return nccl().all_reduce(buffer.data, buffer.data, count, type, operation_of(what.op), communicator_, stream);
      case CollectiveKind::broadcast:
        return nccl().broadcast(buffer.data, buffer.data, count, type, what.root, communicator_, stream);
      default:
        return are_equal(what.parts) ? call_equal(what, stream) : call_each(what, stream);
    }
  }

  char* part_data(const Collective& what, int rank) const {
    return static_cast<char*>(what.buffer.data) +
           what.parts.part(rank).begin * static_cast<int64_t>(size_of(what.buffer.dtype));
  }

  ncclResult_t call_equal(const Collective& what, cudaStream_t stream) const {
    const size_t count = static_cast<size_t>(what.buffer.count) / static_cast<size_t>(what.parts.size());
    const ncclDataType_t type = type_of(what.buffer.dtype);
    char* own = part_data(what, processes().rank());
    if (what.kind == CollectiveKind::all_gather) {
      return nccl().all_gather(own, what.buffer.data, count, type, communicator_, stream);
    }
    return nccl().reduce_scatter(what.buffer.data, own, count, type, operation_of(what.op), communicator_, stream);
  }

  /// One call a part, which the group makes one launch.
  ncclResult_t call_each(const Collective& what, cudaStream_t stream) const {
    const ncclDataType_t type = type_of(what.buffer.dtype);
    for (int rank = 0; rank < what.parts.size(); ++rank) {
      const kernels::Range part = what.parts.part(rank);
      const auto count = static_cast<size_t>(part.end - part.begin);
      if (count == 0) continue;
      char* data = part_data(what, rank);
      const ncclResult_t status =
          what.kind == CollectiveKind::all_gather
              ? nccl().broadcast(data, data, count, type, rank, communicator_, stream)
              : nccl().reduce(data, data, count, type, operation_of(what.op), rank, communicator_, stream);
      if (status != ncclSuccess && status != ncclInProgress) return status;
    }
    return ncclSuccess;
  }

  Stream stream_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> connect_several_devices(Communicator& processes, Device device) {
  return std::make_unique<NcclDevices>(processes, device);
}

}  // namespace engine
