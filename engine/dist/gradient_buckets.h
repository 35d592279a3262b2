#pragma once
// Gradients of all processes, reduced in buckets while backward() still computes the earlier layers.

#include <memory>
#include <optional>
#include <vector>

#include "engine/dist/device_communicator.h"
#include "engine/nn/flat_parameters.h"

namespace engine {

struct BucketOptions {
  double bucket_mb = 25;       // MiB of gradients
  double first_bucket_mb = 1;  // of those that backward() completes first
  /// Average where each process has the mean of its own samples; sum where it divides by the samples of all.
  ReduceOp op = ReduceOp::average;
  /// Of the master buffer: each rank gets the reduced gradients of its own shard only (ZeRO-1). Empty: all of them.
  Shards shards = {};
};

/// A step is begin_step(), any number of micro-batches (also none), and finish(). Gradients of micro-batches add up
/// before they are sent: only the last one, which the caller announces, is followed while it runs. Buckets leave in the
/// same order on every rank, whatever order gradients get ready in, and where some are never ready: a parameter that no
/// gradient reached on this rank counts as zeros and afterwards has the others' gradient, like every parameter.
///
/// On an accelerator each bucket is sent by the communicator's own stream, behind an event of the compute stream, which
/// waits for the last one in finish(). begin_step() to finish() may be recorded; recordings hold the communication.
class GradientBuckets {
 public:
  /// Parameters on the host.
  GradientBuckets(FlatParameters& parameters, Communicator& processes, const BucketOptions& options);
  /// Parameters on an accelerator.
  GradientBuckets(FlatParameters& parameters, DeviceCommunicator& devices, const BucketOptions& options);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  void begin_step();
  /// Before the backward() of the step's last micro-batch on this rank.
  void expect_last();
  /// After it: sends what has not been sent, and waits for all of it (on an accelerator: the compute stream does).
  /// Throws PeerError on the host; on an accelerator DeviceCommunicator::synchronize() does.
  void finish();

  int count() const;
  /// How many of the last step's buckets left before finish(): the measure of overlap.
  int sent_early() const;

 private:
  class Step;
  void follow(const FlatParameters& parameters);
  std::shared_ptr<Step> step_;  // shared with the hooks of the parameters, which cannot be taken back
};

}  // namespace engine
