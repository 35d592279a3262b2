#pragma once
// What a training run would take on a GPU that is not there: memory by category, the plan of every convolution, and the
// largest batch.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/nn/module.h"
#include "engine/profile/gpu_description.h"
#include "kernels/conv2d/conv2d_fusion.h"

namespace engine {

/// What planning needs to know of a model.
struct ModelOutline {
  std::vector<LayerDescription> layers;
  Shape input;             // one picture, {h, w, c}
  int64_t parameters = 0;  // elements of the flat buffer, gaps included
  int64_t statistics = 0;  // elements of running statistics
  static ModelOutline of(const Module& model, const Shape& input);
};

struct GpuPlanRequest {
  GpuDescription gpu;
  int64_t batch = 1;
  kernels::ElementType type = kernels::ElementType::f32;
  int64_t optimizer_slots = 1;  // buffers of the parameters' size: 1 for SGD with momentum and LARS, 2 for Adam
  bool deterministic = false;
  kernels::FusionPolicy fusion = kernels::FusionPolicy::automatic;
};

/// Bytes.
struct PlannedMemory {
  int64_t parameters = 0;  // FP32, running statistics, and the copy in 16 bits where the network computes in it
  int64_t gradients = 0;   // FP32
  int64_t optimizer = 0;
  int64_t activations = 0;  // engine/profile/activation_memory.h
  int64_t workspace = 0;    // the largest that one operation needs: they run one after another
  int64_t total() const { return parameters + gradients + optimizer + activations + workspace; }
};

/// One direction of one convolution.
struct PlannedLayer {
  std::string layer;
  kernels::ConvDirection direction;
  std::string fusion;
  std::string engine;
  int64_t workspace_bytes = 0;
};

struct UnplannedLayer {
  std::string layer;
  kernels::ConvDirection direction;
  std::string fusion;
  std::string reason;
};

struct GpuPlan {
  PlannedMemory memory;
  int64_t largest_batch = 0;  // 0: not even one picture fits
  bool fits = false;          // the batch asked for
  std::vector<PlannedLayer> plans;
  std::vector<UnplannedLayer> unplanned;
};

/// What the GPU has for us: its memory less 1 GiB for the CUDA context, the libraries' kernels and captured graphs.
int64_t usable_bytes(const GpuDescription& gpu);

/// Throws kernels::LibraryError where cuDNN is built in but missing on this machine. In builds without it
/// convolutions are planned on the project's own kernels, fused forms are unplanned, and builds without CUDA plan none.
GpuPlan plan_for_gpu(const ModelOutline& model, const GpuPlanRequest& request);

}  // namespace engine
