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

/// Moves a model's parameters into one FP32 master buffer, in registration order with aligned offsets, and gives each
/// leaf its part of the gradient buffer to write to. Gaps between parameters are zero in all buffers and stay so. The
/// model must outlive this object and keeps its parameters in the buffer after it.
class FlatParameters {
 public:
  static constexpr int64_t kAlignment = 32;  // elements: 128 bytes

  explicit FlatParameters(Module& model);

  /// [size()] f32
  const Tensor& master() const { return master_; }
  const Tensor& gradients() const { return gradients_; }
  const std::vector<FlatRange>& ranges() const { return ranges_; }
  /// Elements of a buffer, gaps included.
  int64_t size() const { return master_.numel(); }
  /// Elements of the parameters alone.
  int64_t parameter_count() const;

  /// Before the first backward() of a step: forgets the gradients without touching them.
  void clear_gradients();
  /// Before gradients() is read: parameters that no gradient reached get zeros.
  void fill_missing_gradients();
  /// A further buffer of the same size (optimizer state, an average), zeros.
  Tensor like_master(MemoryCategory category) const;
  /// Views of such a buffer, one a parameter, named and laid out as the parameters.
  std::vector<NamedTensor> views(const Tensor& buffer) const;

 private:
  Module& model_;
  Tensor master_, gradients_;
  std::vector<FlatRange> ranges_;
};

}  // namespace engine
