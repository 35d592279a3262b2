#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>

#include "kernels/common/lru_cache.h"
#include "kernels/common/onednn.h"
#include "kernels/common/onednn_api.h"
#include "kernels/common/parallel.h"
#include "kernels/matmul/matmul.h"

namespace engine::kernels {
namespace {

using dnnl::memory;

constexpr size_t kCachedPlans = 256;

// Primitives are made for a number of threads.
struct PlanKey {
  MatmulShape shape;
  bool bias = false;
  int threads = 1;
  bool operator==(const PlanKey&) const = default;
};

struct PlanHash {
  size_t operator()(const PlanKey& key) const {
    size_t hash = 0;
    for (const int64_t value :
         {key.shape.m, key.shape.n, key.shape.k, int64_t{key.shape.transpose_a}, int64_t{key.shape.transpose_b},
          int64_t{key.shape.accumulate}, int64_t{key.bias}, int64_t{key.threads}}) {
      hash = hash * 0x9E3779B97F4A7C15 + static_cast<size_t>(value);
    }
    return hash;
  }
};

struct Plan {
  dnnl::matmul::primitive_desc description;  // empty: oneDNN has no such primitive
  dnnl::matmul primitive;
  memory::desc a, b, bias, c;
};

memory::desc matrix(int64_t rows, int64_t columns, bool transposed) {
  return onednn::strided({rows, columns}, transposed ? memory::dims{1, rows} : memory::dims{columns, 1});
}

std::shared_ptr<const Plan> make_plan(const PlanKey& key) {
  const MatmulShape& shape = key.shape;
  auto plan = std::make_shared<Plan>();
  plan->a = matrix(shape.m, shape.k, shape.transpose_a);
  plan->b = matrix(shape.k, shape.n, shape.transpose_b);
  plan->c = matrix(shape.m, shape.n, false);
  if (key.bias) plan->bias = matrix(1, shape.n, false);
  plan->description = onednn::matmul({plan->a, plan->b, plan->bias, plan->c, shape.accumulate});
  if (plan->description) plan->primitive = dnnl::matmul(plan->description);
  return plan;
}

std::shared_ptr<const Plan> plan_for(const MatmulShape& shape, bool bias) {
  static LruCache<PlanKey, Plan, PlanHash> cache(kCachedPlans);
  return cache.get({shape, bias, max_threads()}, make_plan);
}

std::atomic<int64_t>& fallback_count() {
  static std::atomic<int64_t> count{0};
  return count;
}

// False where oneDNN has no primitive; nothing is written then.
bool run(const float* a, const float* b, const float* bias, float* c, const MatmulShape& shape) {
  const auto plan = plan_for(shape, bias != nullptr);
  if (!plan->description) return false;
  const memory::desc scratchpad = plan->description.scratchpad_desc();
  Scratch scratch(Scratch::padded(scratchpad.get_size()));
  std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, onednn::wrap(plan->a, a)},
      {DNNL_ARG_WEIGHTS, onednn::wrap(plan->b, b)},
      {DNNL_ARG_DST, onednn::wrap(plan->c, c)},
      {DNNL_ARG_SCRATCHPAD, onednn::wrap(scratchpad, scratch.take(scratchpad.get_size()))}};
  if (bias != nullptr) args.emplace(DNNL_ARG_BIAS, onednn::wrap(plan->bias, bias));
  plan->primitive.execute(onednn::cpu_stream(), args);
  onednn::cpu_stream().wait();
  return true;
}

bool has_zero_or_negative(const MatmulShape& shape) { return std::min({shape.m, shape.n, shape.k}) <= 0; }

}  // namespace

void matmul_onednn(const float* a, const float* b, float* c, const MatmulShape& shape) {
  if (!has_zero_or_negative(shape)) {
    if (run(a, b, nullptr, c, shape)) return;
    ++fallback_count();
  }
  matmul_cpu(a, b, c, shape);
}

std::string matmul_implementation(const MatmulShape& shape) {
  if (has_zero_or_negative(shape)) return "reference";
  const auto plan = plan_for(shape, false);
  return plan->description ? plan->description.impl_info_str() : "reference";
}

void linear_forward_onednn(const float* x, const float* weight, const float* bias, float* y, const LinearShape& shape) {
  const MatmulShape product{.m = shape.batch, .n = shape.out, .k = shape.in, .transpose_b = true};
  if (!has_zero_or_negative(product)) {
    if (run(x, weight, bias, y, product)) return;
    ++fallback_count();
  }
  linear_forward_cpu(x, weight, bias, y, shape);
}

void linear_backward_data_onednn(const float* grad_y, const float* weight, float* grad_x, const LinearShape& shape) {
  matmul_onednn(grad_y, weight, grad_x, {.m = shape.batch, .n = shape.in, .k = shape.out});
}

void linear_backward_weights_onednn(const float* x, const float* grad_y, float* grad_weight, float* grad_bias,
                                    const LinearShape& shape) {
  matmul_onednn(grad_y, x, grad_weight, {.m = shape.out, .n = shape.in, .k = shape.batch, .transpose_a = true});
  if (grad_bias != nullptr) column_sum(grad_y, grad_bias, shape.batch, shape.out);
}

int64_t matmul_fallbacks() { return fallback_count(); }

}  // namespace engine::kernels
