#include "engine/optim/optimizer.h"

#include <cmath>
#include <functional>
#include <map>

#include "engine/core/device_table.h"
#include "engine/core/error.h"
#include "engine/core/stream.h"
#include "kernels/adam/adam.h"
#include "kernels/adam/adam_cuda.h"
#include "kernels/common/wide.h"
#include "kernels/lars/lars.h"
#include "kernels/lars/lars_cuda.h"
#include "kernels/norm/norm.h"
#include "kernels/sgd/sgd.h"
#include "kernels/sgd/sgd_cuda.h"

namespace engine {

/// The chunks of one region in the memory of a device, offsets counted from the region's beginning.
class DeviceChunks {
 public:
  DeviceChunks(std::span<const kernels::ParameterSegment> segments, Device device) {
    const auto chunks = kernels::parameter_chunks(segments);
    count_ = static_cast<int>(chunks.size());
    for (const kernels::ParameterChunk& chunk : chunks) elements_ += chunk.count;
    table_ = upload_table(std::span<const kernels::ParameterChunk>(chunks), device);
  }
  const kernels::ParameterChunk* data() const { return table_data<kernels::ParameterChunk>(table_); }
  int count() const { return count_; }
  int64_t elements() const { return elements_; }

 private:
  Tensor table_;
  int count_ = 0;
  int64_t elements_ = 0;
};

namespace {

/// Calls f.operator()<G>() with the type of a region's gradients and of its compute copy.
template <typename F>
void dispatch_region(const ParameterRegion& region, F&& f) {
  switch (region.gradients.dtype()) {
    case DType::f16:
      return f.template operator()<kernels::Half>();
    case DType::bf16:
      return f.template operator()<kernels::BFloat16>();
    default:
      return f.template operator()<float>();
  }
}

/// The compute copy from an offset of the master buffer on; null where there is none.
template <typename T>
T* copy_of(const ParameterRegion& region, int64_t offset) {
  return region.compute_copy.defined() ? region.compute_copy.data<T>() + (offset - region.offset) : nullptr;
}

template <typename T>
T* copy_of(const ParameterRegion& region) {
  return copy_of<T>(region, region.offset);
}

/// The gradients from an offset of the master buffer on.
template <typename T>
const T* gradients_of(const ParameterRegion& region, int64_t offset) {
  return region.gradients.data<T>() + (offset - region.offset);
}

float* part_of(const Tensor& buffer, int64_t offset) {
  return buffer.defined() ? buffer.data<float>() + offset : nullptr;
}

}  // namespace

template <typename F>
void Optimizer::for_each_group(F&& f) {
  const std::vector<ParameterRegion>& regions = parameters_.regions();
  if (groups_.empty()) {
    for (const ParameterRegion& region : regions) groups_.push_back(groups_of(region));
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    dispatch_region(regions[i], [&]<typename G>() {
      for (const Group& group : groups_[i]) f.template operator()<G>(regions[i], group);
    });
  }
}

namespace {

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const OptimizerConfig& config, FlatParameters& parameters) : Optimizer(parameters, config) {
    if (config.momentum != 0) momentum_ = parameters.like_master(MemoryCategory::optimizer);
  }

  std::vector<OptimizerSlot> slots() const override {
    return momentum_.defined() ? std::vector<OptimizerSlot>{{"momentum", momentum_}} : std::vector<OptimizerSlot>{};
  }

 protected:
  void update(double lr, double grad_scale) override {
    for_each_group([&]<typename G>(const ParameterRegion& region, const Group& group) {
      const kernels::Sgd spec{lr,        config_.momentum, group.weight_decay, config_.nesterov, applied_steps() == 0,
                              grad_scale};
      float *master = part_of(parameters_.master(), group.offset), *momentum = part_of(momentum_, group.offset);
      const G* gradients = gradients_of<G>(region, group.offset);
      if constexpr (kernels::kNarrow<G>) {
        kernels::sgd_step_cpu<G>(spec, {master, gradients, momentum, copy_of<G>(region, group.offset), group.count});
      } else {
        kernels::sgd_step_cpu(spec, master, gradients, momentum, group.count);
      }
    });
  }

  void update_region(const ParameterRegion& region, const kernels::StepState* state) override {
    const DeviceChunks& chunks = chunks_of(region);
    dispatch_region(region, [&]<typename G>() {
      kernels::sgd_step_cuda<G, G>({.state = state,
                                    .chunks = chunks.data(),
                                    .chunk_count = chunks.count(),
                                    .master = part_of(parameters_.master(), region.offset),
                                    .gradients = region.gradients.data<G>(),
                                    .momentum_buffer = part_of(momentum_, region.offset),
                                    .compute_copy = copy_of<G>(region),
                                    .momentum = static_cast<float>(config_.momentum),
                                    .nesterov = config_.nesterov,
                                    .elements = chunks.elements()},
                                   stream());
    });
  }

 private:
  Tensor momentum_;
};

class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(const OptimizerConfig& config, FlatParameters& parameters)
      : Optimizer(parameters, config),
        exp_avg_(parameters.like_master(MemoryCategory::optimizer)),
        exp_avg_sq_(parameters.like_master(MemoryCategory::optimizer)) {}

  std::vector<OptimizerSlot> slots() const override { return {{"exp_avg", exp_avg_}, {"exp_avg_sq", exp_avg_sq_}}; }

 protected:
  void update(double lr, double grad_scale) override {
    kernels::Adam spec{
        .lr = lr, .decoupled = config_.opt == "adamw", .step = applied_steps() + 1, .grad_scale = grad_scale};
    for_each_group([&]<typename G>(const ParameterRegion& region, const Group& group) {
      spec.weight_decay = group.weight_decay;
      float *master = part_of(parameters_.master(), group.offset), *first = part_of(exp_avg_, group.offset);
      float* second = part_of(exp_avg_sq_, group.offset);
      const G* gradients = gradients_of<G>(region, group.offset);
      if constexpr (kernels::kNarrow<G>) {
        kernels::adam_step_cpu<G>(spec,
                                  {master, gradients, first, second, copy_of<G>(region, group.offset), group.count});
      } else {
        kernels::adam_step_cpu(spec, master, gradients, first, second, group.count);
      }
    });
  }

  void update_region(const ParameterRegion& region, const kernels::StepState* state) override {
    const DeviceChunks& chunks = chunks_of(region);
    dispatch_region(region, [&]<typename G>() {
      kernels::adam_step_cuda<G, G>({.state = state,
                                     .chunks = chunks.data(),
                                     .chunk_count = chunks.count(),
                                     .master = part_of(parameters_.master(), region.offset),
                                     .gradients = region.gradients.data<G>(),
                                     .exp_avg = part_of(exp_avg_, region.offset),
                                     .exp_avg_sq = part_of(exp_avg_sq_, region.offset),
                                     .compute_copy = copy_of<G>(region),
                                     .decoupled = config_.opt == "adamw",
                                     .elements = chunks.elements()},
                                    stream());
    });
  }

 private:
  Tensor exp_avg_, exp_avg_sq_;
};

class LarsOptimizer final : public Optimizer {
 public:
  LarsOptimizer(const OptimizerConfig& config, FlatParameters& parameters) : Optimizer(parameters, config) {
    if (config.momentum != 0) momentum_ = parameters.like_master(MemoryCategory::optimizer);
  }

  std::vector<OptimizerSlot> slots() const override {
    return momentum_.defined() ? std::vector<OptimizerSlot>{{"momentum", momentum_}} : std::vector<OptimizerSlot>{};
  }

 protected:
  void update(double lr, double grad_scale) override {
    for_each_group([&]<typename G>(const ParameterRegion& region, const Group& group) {
      kernels::Lars spec{lr, config_.momentum, group.weight_decay, config_.nesterov, applied_steps() == 0, grad_scale,
                         1.0};
      float *master = part_of(parameters_.master(), group.offset), *momentum = part_of(momentum_, group.offset);
      const G* gradients = gradients_of<G>(region, group.offset);
      if (group.trust_ratio) {
        const double w_norm = std::sqrt(kernels::sum_of_squares_cpu(master, group.count).value);
        const double grad_norm = std::sqrt(kernels::sum_of_squares_cpu(gradients, group.count).value) * grad_scale;
        spec.ratio = kernels::lars_ratio(w_norm, grad_norm, kTrust, spec.weight_decay);
      }
      if constexpr (kernels::kNarrow<G>) {
        kernels::lars_step_cpu<G>(spec, {master, gradients, momentum, copy_of<G>(region, group.offset), group.count});
      } else {
        kernels::lars_step_cpu(spec, master, gradients, momentum, group.count);
      }
    });
  }

  void update_region(const ParameterRegion& region, const kernels::StepState* state) override {
    const DeviceChunks& chunks = chunks_of(region);
    const Table& table = table_of(region, chunks);
    dispatch_region(region, [&]<typename G>() {
      kernels::lars_step_cuda<G, G>({.state = state,
                                     .chunks = chunks.data(),
                                     .chunk_count = chunks.count(),
                                     .tensors = table_data<kernels::LarsTensor>(table.tensors),
                                     .tensor_count = table.count,
                                     .master = part_of(parameters_.master(), region.offset),
                                     .gradients = region.gradients.data<G>(),
                                     .momentum_buffer = part_of(momentum_, region.offset),
                                     .compute_copy = copy_of<G>(region),
                                     .momentum = static_cast<float>(config_.momentum),
                                     .nesterov = config_.nesterov,
                                     .trust_coefficient = static_cast<float>(kTrust),
                                     .elements = chunks.elements()},
                                    table.workspace.raw(), stream());
    });
  }

  /// One tensor each, as the ratio is a tensor's.
  std::vector<Group> groups_of(const ParameterRegion& region) const override {
    std::vector<Group> found;
    for (const FlatRange& range : parameters_.ranges()) {
      if (range.offset < region.offset || range.offset >= region.offset + region.count) continue;
      found.push_back({range.offset, range.count, decay_of(range.parameter), range.parameter.tensor.rank() > 1});
    }
    return found;
  }

 private:
  static constexpr double kTrust = 0.001;
  struct Table {
    Tensor tensors, workspace;
    int count = 0;
  };

  const Table& table_of(const ParameterRegion& region, const DeviceChunks& chunks) {
    Table& table = tables_[region.offset];
    if (table.tensors.defined()) return table;
    const auto tensors = kernels::lars_tensors(segments_of(region));
    table.count = static_cast<int>(tensors.size());
    table.tensors = upload_table(std::span<const kernels::LarsTensor>(tensors), parameters_.device());
    table.workspace = Tensor::empty(Shape{kernels::lars_workspace_bytes(chunks.count(), table.count)}, DType::u8,
                                    MemoryCategory::workspace, parameters_.device());
    return table;
  }

  std::map<int64_t, Table> tables_;  // by the region's offset
  Tensor momentum_;
};

template <typename T>
std::unique_ptr<Optimizer> make(const OptimizerConfig& config, FlatParameters& parameters) {
  return std::make_unique<T>(config, parameters);
}

using Maker = std::unique_ptr<Optimizer> (*)(const OptimizerConfig&, FlatParameters&);

const std::vector<std::pair<std::string, Maker>>& registry() {
  static const std::vector<std::pair<std::string, Maker>> makers = {{"sgd", make<SgdOptimizer>},
                                                                    {"adam", make<AdamOptimizer>},
                                                                    {"adamw", make<AdamOptimizer>},
                                                                    {"lars", make<LarsOptimizer>}};
  return makers;
}

}  // namespace

Optimizer::Optimizer(FlatParameters& parameters, const OptimizerConfig& config)
    : parameters_(parameters), config_(config) {}

Optimizer::~Optimizer() = default;

void Optimizer::step(double lr, double grad_scale) {
  update(lr, grad_scale);
  ++applied_steps_;
}

void Optimizer::step_on_device(const kernels::StepState* state) {
  use_device(parameters_.device());
  for (const ParameterRegion& region : parameters_.regions()) {
    if (region.count > 0) update_region(region, state);
  }
}

std::vector<Optimizer::Group> Optimizer::groups_of(const ParameterRegion& region) const {
  std::vector<const FlatRange*> inside;
  for (const FlatRange& range : parameters_.ranges()) {
    if (range.offset >= region.offset && range.offset < region.offset + region.count) inside.push_back(&range);
  }
  std::vector<Group> found;
  for (const FlatRange* range : inside) {
    const double decay = decay_of(range->parameter);
    if (!found.empty() && found.back().weight_decay == decay) {
      found.back().count = range->offset + range->count - found.back().offset;
    } else {
      found.push_back({range->offset, range->count, decay, false});
    }
  }
  return found;
}

std::vector<kernels::ParameterSegment> Optimizer::segments_of(const ParameterRegion& region) const {
  std::vector<kernels::ParameterSegment> found;
  for (const Group& group : groups_of(region)) {
    found.push_back({.offset = group.offset - region.offset,
                     .count = group.count,
                     .weight_decay = static_cast<float>(group.weight_decay),
                     .trust_ratio = group.trust_ratio});
  }
  return found;
}

const DeviceChunks& Optimizer::chunks_of(const ParameterRegion& region) {
  std::shared_ptr<DeviceChunks>& chunks = chunks_[region.offset];
  if (!chunks) chunks = std::make_shared<DeviceChunks>(segments_of(region), parameters_.device());
  return *chunks;
}

cudaStream_t Optimizer::stream() const { return compute_stream(parameters_.device()).handle(); }

double Optimizer::decay_of(const NamedTensor& parameter) const {
  const double usual = config_.opt == "lars" && parameter.tensor.rank() == 1 ? 0 : config_.weight_decay;
  switch (parameter.kind) {
    case ParameterKind::norm:
      return config_.norm_weight_decay.value_or(usual);
    case ParameterKind::bias:
      return config_.bias_weight_decay.value_or(usual);
    case ParameterKind::weight:
      return config_.weight_decay;
  }
  throw Error("[optimizer] no such kind of parameter");
}

int64_t Optimizer::decayed_tensors() const {
  int64_t count = 0;
  for (const FlatRange& range : parameters_.ranges()) count += decay_of(range.parameter) != 0 ? 1 : 0;
  return count;
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const auto& [name, maker] : registry()) found.push_back(name);
    return found;
  }();
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, FlatParameters& parameters) {
  for (const auto& [name, maker] : registry()) {
    if (name == config.opt) return maker(config, parameters);
  }
  throw ConfigError(
      fmt::format("--opt: got \"{}\", expected one of {}", escaped(config.opt), fmt::join(optimizer_names(), ", ")));
}

}  // namespace engine
