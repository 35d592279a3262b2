// NCCL's calls on emulated devices: work of a library that reads and writes device memory, and that the processes' own
// communicator carries when its stream gets there. The thread that waits for the stream waits for the other processes.

#include "engine/core/error.h"
#include "engine/dist/device_communicator.h"
#include "kernels/common/cuda_error.h"
#include "kernels/emulator/launch.h"

namespace engine {
namespace {

emulator::Span span_of(const ElementBuffer& buffer, const kernels::Range& range) {
  const auto element = static_cast<int64_t>(size_of(buffer.dtype));
  return {static_cast<const char*>(buffer.data) + range.begin * element,
          static_cast<size_t>((range.end - range.begin) * element)};
}

class EmulatedDevices final : public DeviceCommunicator {
 public:
  EmulatedDevices(Communicator& processes, Device device) : DeviceCommunicator(processes), stream_(device) {}

  const Stream& stream() const override { return stream_; }

  void synchronize(const Stream& stream) override {
    stream.synchronize();
    check();
  }

  void check() override { processes().check(); }

 protected:
  void put(Collective collective, const Stream& stream) override {
    use_device(stream.device());
    const kernels::Range all{0, collective.buffer.count}, own = collective.parts.part(processes().rank());
    const bool gathers = collective.kind == CollectiveKind::all_gather;
    const bool scatters = collective.kind == CollectiveKind::reduce_scatter;
    const bool receives = collective.kind == CollectiveKind::broadcast && processes().rank() != collective.root;
    std::vector<emulator::Span> reads, writes{span_of(collective.buffer, scatters ? own : all)};
    if (!receives) reads.push_back(span_of(collective.buffer, gathers ? own : all));
    const auto run = [&processes = processes(), collective] {
      try {
        processes.start(collective).wait();
      } catch (const PeerError&) {
        // Nothing may be thrown on a stream; check() throws it.
      }
    };
    kernels::check_cuda(
        emulator::launch_library(name_of(collective.kind), stream.handle(), std::move(reads), std::move(writes), run),
        name_of(collective.kind));
  }

 private:
  Stream stream_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> connect_several_devices(Communicator& processes, Device device) {
  return std::make_unique<EmulatedDevices>(processes, device);
}

}  // namespace engine
