#include "tests/support/golden_tensor.h"

#include <algorithm>
#include <stdexcept>

#include "engine/core/dispatch.h"
#include "models/registry.h"

namespace engine::testing {
namespace {

/// Height and width of the picture behind a flatten, which is square in all models.
int64_t side_of(const NamedTensor& named) {
  const int64_t pixels = named.tensor.dim(1) / named.channels;
  int64_t side = 1;
  while (side * side < pixels) ++side;
  return side;
}

}  // namespace

Tensor tensor_of(const GoldenTensor& golden, DType dtype) {
  const GoldenTensor last = to_channels_last(golden);
  const Shape shape{std::span<const int64_t>(last.shape)};
  if (dtype == DType::i64) return Tensor::from_vector(shape, last.as<int64_t>());
  return dispatch_float(dtype, "golden", [&]<typename T>() { return Tensor::from_vector(shape, last.as<T>()); });
}

GoldenTensor golden_of(const Tensor& tensor) {
  const auto extents = tensor.shape().extents();
  return dispatch_float(tensor.dtype(), "golden", [&]<typename T>() {
    const std::vector<T> values = tensor.to_vector<T>();
    return to_channels_first(golden_tensor<T>(values, Extents(extents.begin(), extents.end())));
  });
}

GoldenTensor golden_of(const NamedTensor& named, const Tensor& values) {
  const GoldenTensor golden = golden_of(values);
  if (named.layout != FileLayout::flattened_linear) return golden;
  const int64_t side = side_of(named);
  return columns_to_channels_first(golden, named.channels, side, side);
}

std::string engine_name(const std::string& golden_model) {
  std::string name = golden_model;
  std::erase(name, '_');
  return name;
}

Extents torch_shape(const NamedTensor& named) {
  const auto extents = named.tensor.shape().extents();
  Extents shape(extents.begin(), extents.end());
  if (named.layout == FileLayout::filter) shape = {shape[0], shape[3], shape[1], shape[2]};
  return shape;
}

void assign(const NamedTensor& named, const GoldenTensor& golden) {
  GoldenTensor source = golden;
  if (named.layout == FileLayout::flattened_linear) {
    const int64_t side = side_of(named);
    source = columns_to_channels_last(golden, named.channels, side, side);
  }
  named.tensor.copy_from(tensor_of(source, named.tensor.dtype()));
}

std::unique_ptr<Module> formula_model(const std::string& golden_model, int64_t classes, DType dtype,
                                      const GoldenFile* stored) {
  auto model = models::find_model(engine_name(golden_model)).make({.num_classes = classes});
  model->convert(dtype);
  std::vector<NamedTensor> all = model->parameters();
  const std::vector<NamedTensor> buffers = model->buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  for (const NamedTensor& named : all) {
    const std::string key = "state/" + named.name;
    const bool is_stored = stored != nullptr && stored->has(key);
    assign(named, is_stored ? stored->at(key) : formula_state(named.name, torch_shape(named)));
  }
  return model;
}

}  // namespace engine::testing
