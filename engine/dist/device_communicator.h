#pragma once
// Collectives on the memory of accelerators, as work on a stream: NCCL between GPUs. On emulated devices the same calls
// are carried by the processes' own communicator, when the stream gets to them.

#include <memory>
#include <string>

#include "engine/core/stream.h"
#include "engine/dist/communicator.h"

namespace engine {

/// Every process enqueues the same operations in the same order. An operation's buffer is device memory; it is reduced
/// or overwritten when the stream gets there. After a failure buffers hold anything, streams run on without waiting,
/// and check() and synchronize() throw.
class DeviceCommunicator {
 public:
  explicit DeviceCommunicator(Communicator& processes) : processes_(processes) {}
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  Communicator& processes() const { return processes_; }
  /// A stream of its own, so that communication and computing overlap; events order the two.
  virtual const Stream& stream() const = 0;

  /// An all_reduce, reduce_scatter, all_gather or broadcast; its channel is the device's. On GPUs the order of
  /// additions is NCCL's, the same from run to run on one machine, and 16-bit sums are rounded at each step. May be
  /// recorded (RecordedWork), and is then repeated with each replay.
  void enqueue(Collective collective, const Stream& stream);

  /// Waits for the stream like Stream::synchronize(), but not for ever: throws PeerError where another process has
  /// failed, ends, or is not there within the timeout. Every process waits as often; all waits for streams with
  /// collectives on them, or behind them, go through here.
  virtual void synchronize(const Stream& stream) = 0;
  /// Throws PeerError where a collective or a process has failed.
  virtual void check() = 0;

 protected:
  virtual void put(Collective collective, const Stream& stream) = 0;

 private:
  Communicator& processes_;
};

/// One device a process. Every process calls it; throws PeerError, and where NCCL is missing kernels::LibraryError or
/// DeviceError. A process that is alone needs no NCCL. `processes` must outlive the object.
std::unique_ptr<DeviceCommunicator> connect_devices(Communicator& processes, Device device);

/// The same for two processes or more: the part that depends on the build.
std::unique_ptr<DeviceCommunicator> connect_several_devices(Communicator& processes, Device device);

}  // namespace engine
