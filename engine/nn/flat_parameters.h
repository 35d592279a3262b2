#pragma once
// All parameters of a model in one buffer, and their gradients in another.

#include <functional>
#include <string>
#include <vector>

#include "engine/nn/module.h"

namespace engine {

/// Where a parameter lies in the flat buffers.
struct FlatRange {
  NamedTensor parameter;  // its tensor is the view into the master buffer
  int64_t offset = 0;     // elements; a multiple of FlatParameters::kAlignment
  int64_t count = 0;
};

/// A run of the flat buffers whose gradients have one type.
struct ParameterRegion {
  int64_t offset = 0;  // elements of the master buffer
  int64_t count = 0;
  Tensor gradients;     // [count]
  Tensor compute_copy;  // [count], what the model computes with; undefined where that is the master itself
};

/// Moves a model's parameters to a device, into one FP32 master buffer, in registration order with aligned offsets, and
/// gives each leaf its part of the gradient buffer to write to. Gaps between parameters are zero in all buffers and
/// stay so. The f32 buffers of the model (running statistics) move into one buffer alike; its counters stay on the
/// host. The model must outlive this object and keeps its tensors in the buffers after it.
///
/// With a compute type of f16 or bf16 the model computes with a copy of its weights and biases in that type and gets
/// their gradients in it; batch-norm parameters stay f32. The master then holds weights and biases first and norms
/// behind them, each in the order of registration: two regions. In f32 there is one region.
class FlatParameters {
 public:
  static constexpr int64_t kAlignment = 32;  // elements: 128 bytes

  explicit FlatParameters(Module& model, Device device = Device::cpu(), DType compute = DType::f32);

  /// [size()] f32
  const Tensor& master() const { return master_; }
  /// In f32: all of them.
  const Tensor& gradients() const { return regions_.front().gradients; }
  const std::vector<ParameterRegion>& regions() const { return regions_; }
  /// Views of the gradients, one a parameter, named and laid out as the parameters.
  std::vector<NamedTensor> gradient_views() const;
  /// The model's tensors as files have them: parameters from the master buffer, and buffers.
  std::vector<NamedTensor> model_tensors() const;
  /// After the master was written by other means than an optimizer: rounds it into the compute copy.
  void refresh_compute_copy();
  Device device() const { return device_; }
  /// The type that pictures are to be given to the model in.
  DType compute_dtype() const { return compute_; }
  /// All running statistics, gaps included, f32; counters() are the model's integer buffers, on the host.
  const Tensor& statistics() const { return statistics_; }
  /// The part of a buffer like statistics() that corresponds to one of the model's running statistics.
  Tensor statistics_like(const Tensor& of_model, const Tensor& buffer) const;
  const std::vector<NamedTensor>& counters() const { return counters_; }
  const std::vector<FlatRange>& ranges() const { return ranges_; }
  /// Elements of a buffer, gaps included.
  int64_t size() const { return master_.numel(); }
  /// Elements of the parameters alone.
  int64_t parameter_count() const;

  /// Before the first backward() of a step: forgets the gradients without touching them.
  void clear_gradients();
  /// Before the gradients are read: parameters that no gradient reached get zeros.
  void fill_missing_gradients();
  /// A further buffer of the same size (optimizer state, an average), zeros.
  Tensor like_master(MemoryCategory category) const;
  /// Views of such a buffer, one a parameter, named and laid out as the parameters.
  std::vector<NamedTensor> views(const Tensor& buffer) const;

 private:
  void place_parameters();
  void move_parameters();
  const ParameterRegion& region_of(const FlatRange& range) const;
  Tensor gradient_of(const FlatRange& range) const;
  void move_buffers();

  Module& model_;
  Device device_;
  DType compute_;
  Tensor master_, statistics_;
  std::vector<ParameterRegion> regions_;
  std::vector<NamedTensor> counters_;
  std::vector<FlatRange> ranges_;
};

}  // namespace engine
