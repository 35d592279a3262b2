#pragma once
// Queues of device work, marks in them, and recorded work: owners of the runtime's handles.

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/core/device.h"

namespace engine {

/// A queue of one device. Work on it runs in order; between queues only events order anything.
class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  cudaStream_t handle() const { return handle_; }
  /// Waits for everything on it. Throws where a kernel on it has failed.
  void synchronize() const;

 private:
  Device device_;
  cudaStream_t handle_ = nullptr;
};

/// Copies bytes on a stream; either side may be the host's memory, and pinned memory must last until the copy is done.
void copy_async(void* target, const void* source, int64_t bytes, const Stream& stream);

/// A mark in a stream.
class Event {
 public:
  /// With `timed`, milliseconds_since() works.
  explicit Event(Device device, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream);
  /// Later work on the stream waits for the mark; the host does not.
  void hold(const Stream& stream) const;
  /// Waits for the mark; at once where none was recorded.
  void synchronize() const;
  float milliseconds_since(const Event& earlier) const;

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Work recorded once and replayed as a whole (a CUDA graph). Memory that the work allocates and frees keeps its
/// addresses.
class RecordedWork {
 public:
  /// Records what `enqueue` puts on the stream (and on streams it orders by events); nothing runs. Other threads may
  /// use the runtime meanwhile. Throws what enqueue throws, and kernels::CudaError for work that cannot be recorded.
  RecordedWork(const Stream& stream, const std::function<void()>& enqueue);
  ~RecordedWork();
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

  void replay(const Stream& stream) const;

 private:
  cudaGraphExec_t handle_ = nullptr;
};

/// The stream that the ops of the calling thread use on a device; made at first use and never destroyed.
const Stream& compute_stream(Device device);

}  // namespace engine
