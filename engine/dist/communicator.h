#pragma once
// Collective operations between the processes of a run, on host memory. Every process starts the same operations in the
// same order; none waits for ever.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/core/tensor.h"
#include "engine/dist/shards.h"

namespace engine {

enum class ReduceOp { sum, average, max };
const char* name_of(ReduceOp op);

/// Contiguous elements in host memory, or in a device's where a header says so.
struct ElementBuffer {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::f32;
  int64_t bytes() const { return count * static_cast<int64_t>(size_of(dtype)); }
};
/// A contiguous tensor's elements.
ElementBuffer buffer_of(const Tensor& tensor);
template <typename T>
ElementBuffer buffer_of(std::span<T> values) {
  return {values.data(), static_cast<int64_t>(values.size()), dtype_of<T>};
}

enum class CollectiveKind { all_reduce, reduce_scatter, all_gather, broadcast, barrier };
const char* name_of(CollectiveKind kind);

/// Operations of one channel run one after the other; channels do not wait for each other, so that gradients under way
/// do not hold up what a layer or the trainer asks for.
enum class Channel { host, gradients, device };
inline constexpr int kChannels = 3;

/// What an operation does. Reductions take f64, f32, f16, bf16 and i64; i64 cannot be averaged. Each element is reduced
/// in the order of ranks, so that all ranks get the same bits, whatever the division into parts and however the
/// messages arrive. f16 and bf16 are added in f32 and rounded once. A NaN anywhere makes the maximum NaN.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  std::string name;  // what errors call it: "gradients, bucket 3"
  ElementBuffer buffer = {};
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // of a broadcast
  /// Which rank holds what after a reduce_scatter and before an all_gather; how the work is divided in others.
  Shards parts = {};
  Channel channel = Channel::host;
};

/// Fills in equal parts where none are given. Throws engine::Error for what cannot be done among `size` ranks.
void complete(Collective& collective, int size);

/// An operation under way.
class Request {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    virtual bool done() const = 0;
    virtual void wait() = 0;
  };

  Request() = default;  // done
  explicit Request(std::shared_ptr<Work> work) : work_(std::move(work)) {}
  bool done() const { return !work_ || work_->done(); }
  /// Throws PeerError, which names the operation and the rank at fault.
  void wait() {
    if (work_) work_->wait();
  }

 private:
  std::shared_ptr<Work> work_;
};

/// Where a process stands among the others.
struct ProcessPlace {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among those of its host
};

class Communicator {
 public:
  explicit Communicator(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const ProcessPlace& place() const { return place_; }
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  /// How long an operation may lie still.
  double timeout_seconds() const { return timeout_seconds_; }

  /// Puts an operation behind those of its channel; it goes on while the caller computes. The buffer belongs to it
  /// until wait() returns or throws. Throws engine::Error for what cannot be reduced.
  Request start(Collective collective);

  // Forms of it. Buffers are reduced, gathered and overwritten in place.
  Request start_all_reduce(std::string name, const ElementBuffer& buffer, ReduceOp op = ReduceOp::sum);
  /// Afterwards a rank's own part is reduced; the others hold anything.
  Request start_reduce_scatter(std::string name, const ElementBuffer& buffer, Shards parts,
                               ReduceOp op = ReduceOp::sum);
  /// From each rank's own part.
  Request start_all_gather(std::string name, const ElementBuffer& buffer, Shards parts);
  Request start_broadcast(std::string name, const ElementBuffer& buffer, int root = 0);

  // The same to the end.
  void all_reduce(std::string name, const ElementBuffer& buffer, ReduceOp op = ReduceOp::sum);
  void reduce_scatter(std::string name, const ElementBuffer& buffer, Shards parts, ReduceOp op = ReduceOp::sum);
  void all_gather(std::string name, const ElementBuffer& buffer, Shards parts);
  void broadcast(std::string name, const ElementBuffer& buffer, int root = 0);
  void barrier(std::string name);

  /// Every rank's text, by rank.
  std::vector<std::string> gather_texts(const std::string& name, const std::string& text);

  /// While such an object lives this process waits for others by other means (a GPU's collectives): a rank that dies or
  /// gives no sign of life, or a wait beyond the timeout, is then a failure that check() throws. Every rank makes as
  /// many.
  class Watch {
   public:
    virtual ~Watch() = default;
  };
  virtual std::unique_ptr<Watch> watch(const std::string& name) = 0;

  /// Throws PeerError where a process is known to have failed.
  virtual void check() = 0;
  /// Tells the other processes that this one ends, and why: their waits throw PeerError with this rank and the message.
  /// To be called while requests that have not been waited for still live: one that an error drops has no better words
  /// for the others than that there was an error.
  virtual void fail(const std::string& message) = 0;
  /// The orderly end, once all processes come to it. Without it the destructor counts as a failure.
  virtual void close() = 0;

 protected:
  virtual Request enqueue(Collective collective) = 0;
  ProcessPlace place_;

 private:
  double timeout_seconds_;
};

/// The only process of a run: results are there at once.
std::unique_ptr<Communicator> make_single_process();

}  // namespace engine
