#pragma once
// A convolution as a graph of cuDNN's, with the ways in which the library can compute it. The one door to
// cudnn-frontend, which takes long to compile.

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/conv2d/conv2d_device.h"

struct cudnnContext;  // a cudnnHandle_t points to one

namespace engine::kernels {

/// The GPU that plans are for.
struct ConvGraphTarget {
  int sm_version = 0;              // 90 for compute capability 9.0
  cudnnContext* handle = nullptr;  // of a device at hand; or null, and then
  std::string device_json{};       // a description as cuDNN's device property descriptor takes it
};

class ConvGraph {
 public:
  /// Asks the heuristics. Throws LibraryError where cuDNN is missing or knows no way. Of the options, determinism and
  /// the workspace limit count.
  ConvGraph(const ConvPlanKey& key, const ConvGraphTarget& target, const ConvPlanOptions& options);
  ~ConvGraph();
  ConvGraph(const ConvGraph&) = delete;
  ConvGraph& operator=(const ConvGraph&) = delete;

  /// Ways, the best first as far as the heuristics know.
  int64_t candidates() const;
  /// The library's name of a way, the same in every process: "ConvFwd_eng62_k2=28...".
  std::string name(int64_t candidate) const;
  /// Makes a way ready to run; false where the options forbid it or the library cannot. Not for several threads at
  /// once.
  bool build(int64_t candidate);
  /// Why the last build() failed, in the library's words.
  const std::string& failure() const;

  // Of ways that were built:
  int64_t workspace_bytes(int64_t candidate) const;
  /// Throws LibraryError. Threads may call at once, each with a handle of its own.
  void run(int64_t candidate, cudnnContext* handle, const ConvBuffers& buffers, void* workspace) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace engine::kernels
