#include "engine/dist/device_communicator.h"

#include "engine/core/error.h"

namespace engine {
namespace {

class LoneDevice final : public DeviceCommunicator {
 public:
  LoneDevice(Communicator& processes, Device device) : DeviceCommunicator(processes), stream_(device) {}
  const Stream& stream() const override { return stream_; }
  void synchronize(const Stream& stream) override { stream.synchronize(); }
  void check() override {}

 protected:
  void put(Collective, const Stream&) override {}

 private:
  Stream stream_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> connect_devices(Communicator& processes, Device device) {
  if (processes.size() == 1) return std::make_unique<LoneDevice>(processes, device);
  return connect_several_devices(processes, device);
}

void DeviceCommunicator::enqueue(Collective collective, const Stream& stream) {
  ENGINE_CHECK(collective.kind != CollectiveKind::barrier, "[{}] {}: got a device, expected the host",
               name_of(collective.kind), collective.name);
  complete(collective, processes_.size());
  if (processes_.size() == 1 || collective.buffer.count == 0) return;
  collective.channel = Channel::device;
  put(std::move(collective), stream);
}

}  // namespace engine
