#include <memory>
#include <unordered_map>

#include "kernels/common/lru_cache.h"
#include "kernels/common/onednn.h"
#include "kernels/common/onednn_api.h"
#include "kernels/common/parallel.h"
#include "kernels/conv2d/conv2d_onednn.h"

namespace engine::kernels {
namespace {

using dnnl::memory;

// Three directions of some hundred shapes: ResNet-50 has 23 at each picture size.
constexpr size_t kCachedPlans = 1024;

// Primitives are made for a number of threads.
struct PlanKey {
  Conv2dShape shape;
  ConvDirection direction = ConvDirection::forward;
  bool bias = false;
  int threads = 1;
  memory::data_type type = memory::data_type::f32;
  bool operator==(const PlanKey&) const = default;
};

struct PlanHash {
  size_t operator()(const PlanKey& key) const {
    const Conv2dShape& p = key.shape;
    size_t hash = 0;
    for (const int64_t value : {p.n, p.h, p.w, p.c, p.k, p.r, p.s, p.stride_h, p.stride_w, p.pad_h, p.pad_w,
                                p.dilation_h, p.dilation_w, p.groups, static_cast<int64_t>(key.direction),
                                int64_t{key.bias}, int64_t{key.threads}, static_cast<int64_t>(key.type)}) {
      hash = (hash ^ static_cast<size_t>(value)) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// A primitive on NHWC images, with the filters in the layout that it likes best.
struct Plan {
  dnnl::primitive primitive;  // empty: oneDNN has none for the shape
  std::string implementation = "reference";
  memory::desc x, y, bias, scratchpad;
  memory::desc weight;        // KRSC
  memory::desc inner_weight;  // the primitive's
  dnnl::primitive reorder;    // between the two; empty when they are the same
  memory::desc reorder_scratchpad;
};

memory::desc image(const memory::dims& nchw, memory::data_type type) {
  const int64_t c = nchw[1], h = nchw[2], w = nchw[3];
  return onednn::strided(nchw, {h * w * c, 1, w * c, c}, type);
}

memory::dims filter_dims(const Conv2dShape& shape) {
  const int64_t group_c = shape.c / shape.groups;
  if (shape.groups == 1) return {shape.k, group_c, shape.r, shape.s};
  return {shape.groups, shape.k / shape.groups, group_c, shape.r, shape.s};
}

memory::desc krsc(const Conv2dShape& shape, memory::data_type type) {
  const int64_t group_c = shape.c / shape.groups, filter = shape.r * shape.s * group_c;
  memory::dims strides = {filter, 1, shape.s * group_c, group_c};
  if (shape.groups != 1) strides.insert(strides.begin(), shape.k / shape.groups * filter);
  return onednn::strided(filter_dims(shape), strides, type);
}

template <typename Primitive, typename Description>
void adopt(Plan& plan, const Description& description, const memory::desc& inner_weight) {
  plan.primitive = Primitive(description);
  plan.implementation = description.impl_info_str();
  plan.scratchpad = description.scratchpad_desc();
  plan.inner_weight = inner_weight;
}

void add_reorder(Plan& plan, ConvDirection direction) {
  if (plan.inner_weight == plan.weight) return;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const bool outward = direction == ConvDirection::backward_weights;
  const auto& engine = onednn::cpu_engine();
  const dnnl::reorder::primitive_desc description(engine, outward ? plan.inner_weight : plan.weight, engine,
                                                  outward ? plan.weight : plan.inner_weight, attr);
  plan.reorder = dnnl::reorder(description);
  plan.reorder_scratchpad = description.scratchpad_desc();
}

std::shared_ptr<const Plan> make_plan(const PlanKey& key) {
  const Conv2dShape& shape = key.shape;
  auto plan = std::make_shared<Plan>();
  plan->x = image({shape.n, shape.c, shape.h, shape.w}, key.type);
  plan->y = image({shape.n, shape.k, shape.out_h(), shape.out_w()}, key.type);
  plan->weight = krsc(shape, key.type);
  if (key.bias) plan->bias = onednn::strided({shape.k}, {1}, key.type);
  onednn::ConvolutionArgs args{.src = plan->x,
                               .weights = onednn::any_layout(filter_dims(shape), key.type),
                               .bias = plan->bias,
                               .dst = plan->y,
                               .strides = {shape.stride_h, shape.stride_w},
                               .dilations = {shape.dilation_h, shape.dilation_w},
                               .padding = {shape.pad_h, shape.pad_w}};
  switch (key.direction) {
    case ConvDirection::forward:
      if (const auto d = onednn::convolution_forward(args)) {
        adopt<dnnl::convolution_forward>(*plan, d, d.weights_desc());
      }
      break;
    case ConvDirection::backward_data:
      if (const auto d = onednn::convolution_backward_data(args)) {
        adopt<dnnl::convolution_backward_data>(*plan, d, d.weights_desc());
      }
      break;
    case ConvDirection::backward_weights:
      if (const auto d = onednn::convolution_backward_weights(args)) {
        adopt<dnnl::convolution_backward_weights>(*plan, d, d.diff_weights_desc());
      }
      break;
  }
  // Whatever takes the place of plain loops for BFloat16, such as a detour through floats, is faster.
  const bool plain = plan->implementation.find("ref") != std::string::npos;
  if (plain && key.type != memory::data_type::f32) return std::make_shared<Plan>();
  if (plan->primitive) add_reorder(*plan, key.direction);
  return plan;
}

template <typename T>
std::shared_ptr<const Plan> plan_for(const Conv2dShape& shape, ConvDirection direction, bool bias) {
  static LruCache<PlanKey, Plan, PlanHash> cache(kCachedPlans);
  shape.require_valid();
  return cache.get({shape, direction, bias, max_threads(), onednn::type_of<T>()}, make_plan);
}

// One call's scratch memory, cut for the primitive, the reorder and the reordered filters.
class Execution {
 public:
  explicit Execution(const Plan& plan)
      : plan_(plan),
        scratch_(Scratch::padded(plan.scratchpad.get_size()) + Scratch::padded(plan.reorder_scratchpad.get_size()) +
                 Scratch::padded(plan.reorder ? plan.inner_weight.get_size() : 0)),
        scratchpad_(onednn::wrap(plan.scratchpad, scratch_.take(plan.scratchpad.get_size()))) {}

  void run(std::unordered_map<int, memory> args) {
    args.emplace(DNNL_ARG_SCRATCHPAD, scratchpad_);
    plan_.primitive.execute(onednn::cpu_stream(), args);
    onednn::cpu_stream().wait();
  }

  // The filters for the primitive to read.
  memory read_weight(const void* weight) {
    if (!plan_.reorder) return onednn::wrap(plan_.weight, weight);
    const memory inner = onednn::wrap(plan_.inner_weight, scratch_.take(plan_.inner_weight.get_size()));
    reorder(onednn::wrap(plan_.weight, weight), inner);
    return inner;
  }

  // Where the primitive writes filters; write_weight brings them home.
  memory inner_weight(void* weight) {
    if (!plan_.reorder) return onednn::wrap(plan_.weight, weight);
    return onednn::wrap(plan_.inner_weight, scratch_.take(plan_.inner_weight.get_size()));
  }
  void write_weight(const memory& inner, void* weight) {
    if (plan_.reorder) reorder(inner, onednn::wrap(plan_.weight, weight));
  }

 private:
  void reorder(const memory& from, const memory& to) {
    const size_t bytes = plan_.reorder_scratchpad.get_size();
    plan_.reorder.execute(onednn::cpu_stream(),
                          {{DNNL_ARG_FROM, from},
                           {DNNL_ARG_TO, to},
                           {DNNL_ARG_SCRATCHPAD, onednn::wrap(plan_.reorder_scratchpad, scratch_.take(bytes))}});
    onednn::cpu_stream().wait();
  }

  const Plan& plan_;
  Scratch scratch_;
  memory scratchpad_;
};

}  // namespace

template <typename T>
bool conv2d_forward_onednn(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape) {
  const auto plan = plan_for<T>(shape, ConvDirection::forward, bias != nullptr);
  if (!plan->primitive) return false;
  Execution execution(*plan);
  std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, onednn::wrap(plan->x, x)},
                                          {DNNL_ARG_WEIGHTS, execution.read_weight(weight)},
                                          {DNNL_ARG_DST, onednn::wrap(plan->y, y)}};
  if (bias != nullptr) args.emplace(DNNL_ARG_BIAS, onednn::wrap(plan->bias, bias));
  execution.run(std::move(args));
  return true;
}

template <typename T>
bool conv2d_backward_data_onednn(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape) {
  const auto plan = plan_for<T>(shape, ConvDirection::backward_data, false);
  if (!plan->primitive) return false;
  Execution execution(*plan);
  execution.run({{DNNL_ARG_DIFF_DST, onednn::wrap(plan->y, grad_y)},
                 {DNNL_ARG_WEIGHTS, execution.read_weight(weight)},
                 {DNNL_ARG_DIFF_SRC, onednn::wrap(plan->x, grad_x)}});
  return true;
}

template <typename T>
bool conv2d_backward_weights_onednn(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape) {
  const auto plan = plan_for<T>(shape, ConvDirection::backward_weights, false);
  if (!plan->primitive) return false;
  Execution execution(*plan);
  const memory inner = execution.inner_weight(grad_weight);
  execution.run({{DNNL_ARG_SRC, onednn::wrap(plan->x, x)},
                 {DNNL_ARG_DIFF_DST, onednn::wrap(plan->y, grad_y)},
                 {DNNL_ARG_DIFF_WEIGHTS, inner}});
  execution.write_weight(inner, grad_weight);
  return true;
}

template <typename T>
std::string conv2d_onednn_implementation(const Conv2dShape& shape, ConvDirection direction) {
  return plan_for<T>(shape, direction, false)->implementation;
}

template bool conv2d_forward_onednn(const float*, const float*, const float*, float*, const Conv2dShape&);
template bool conv2d_backward_data_onednn(const float*, const float*, float*, const Conv2dShape&);
template bool conv2d_backward_weights_onednn(const float*, const float*, float*, const Conv2dShape&);
template std::string conv2d_onednn_implementation<float>(const Conv2dShape&, ConvDirection);
template bool conv2d_forward_onednn(const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template bool conv2d_backward_data_onednn(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template bool conv2d_backward_weights_onednn(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template std::string conv2d_onednn_implementation<BFloat16>(const Conv2dShape&, ConvDirection);

}  // namespace engine::kernels
