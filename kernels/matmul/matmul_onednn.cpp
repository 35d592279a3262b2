#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>

#include "kernels/common/lru_cache.h"
#include "kernels/common/onednn.h"
#include "kernels/common/onednn_api.h"
#include "kernels/common/parallel.h"
#include "kernels/common/storage_vec.h"
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
  memory::data_type type = memory::data_type::f32;
  bool operator==(const PlanKey&) const = default;
};

struct PlanHash {
  size_t operator()(const PlanKey& key) const {
    size_t hash = 0;
    for (const int64_t value :
         {key.shape.m, key.shape.n, key.shape.k, int64_t{key.shape.transpose_a}, int64_t{key.shape.transpose_b},
          int64_t{key.shape.accumulate}, int64_t{key.bias}, int64_t{key.threads}, static_cast<int64_t>(key.type)}) {
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

memory::desc matrix(int64_t rows, int64_t columns, bool transposed, memory::data_type type) {
  return onednn::strided({rows, columns}, transposed ? memory::dims{1, rows} : memory::dims{columns, 1}, type);
}

std::shared_ptr<const Plan> make_plan(const PlanKey& key) {
  const MatmulShape& shape = key.shape;
  auto plan = std::make_shared<Plan>();
  plan->a = matrix(shape.m, shape.k, shape.transpose_a, key.type);
  plan->b = matrix(shape.k, shape.n, shape.transpose_b, key.type);
  plan->c = matrix(shape.m, shape.n, false, key.type);
  if (key.bias) plan->bias = matrix(1, shape.n, false, key.type);
  plan->description = onednn::matmul({plan->a, plan->b, plan->bias, plan->c, shape.accumulate});
  if (plan->description) plan->primitive = dnnl::matmul(plan->description);
  return plan;
}

template <typename T>
std::shared_ptr<const Plan> plan_for(const MatmulShape& shape, bool bias) {
  static LruCache<PlanKey, Plan, PlanHash> cache(kCachedPlans);
  return cache.get({shape, bias, max_threads(), onednn::type_of<T>()}, make_plan);
}

std::atomic<int64_t>& fallback_count() {
  static std::atomic<int64_t> count{0};
  return count;
}

// False where oneDNN has no primitive; nothing is written then.
template <typename T>
bool run(const T* a, const T* b, const T* bias, T* c, const MatmulShape& shape) {
  const auto plan = plan_for<T>(shape, bias != nullptr);
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

// False where the library has no kernel, or none that is faster than one for floats.
template <typename T>
bool multiply(const T* a, const T* b, const T* bias, T* c, const MatmulShape& shape) {
  if constexpr (std::is_same_v<T, Half>) {
    return false;
  } else {
    if (std::is_same_v<T, BFloat16> && !onednn_has_bf16()) return false;
    if (run(a, b, bias, c, shape)) return true;
    ++fallback_count();
    return false;
  }
}

constexpr int64_t kGrain = 1 << 15;

template <typename T>
float* widened(const T* from, int64_t count, Scratch& scratch) {
  float* to = scratch.take_floats(count);
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) { widen(from + begin, to + begin, end - begin); });
  return to;
}

// The product of 16-bit matrices as one of floats.
template <typename T>
void multiply_floats(const T* a, const T* b, const T* bias, T* c, const MatmulShape& shape) {
  const int64_t a_count = shape.m * shape.k, b_count = shape.k * shape.n, c_count = shape.m * shape.n;
  Scratch scratch(Scratch::padded_floats(a_count) + Scratch::padded_floats(b_count) + Scratch::padded_floats(c_count) +
                  Scratch::padded_floats(shape.n));
  const float *wide_a = widened(a, a_count, scratch), *wide_b = widened(b, b_count, scratch);
  float* product = shape.accumulate ? widened(c, c_count, scratch) : scratch.take_floats(c_count);
  const float* wide_bias = bias == nullptr ? nullptr : widened(bias, shape.n, scratch);
  if (bias != nullptr) {
    linear_forward_onednn(wide_a, wide_b, wide_bias, product, {shape.m, shape.k, shape.n});
  } else {
    matmul_onednn(wide_a, wide_b, product, shape);
  }
  parallel_for(c_count, kGrain, [=](int64_t begin, int64_t end) { narrow(product + begin, c + begin, end - begin); });
}

}  // namespace

template <typename T>
void matmul_onednn(const T* a, const T* b, T* c, const MatmulShape& shape) {
  const bool plain = has_zero_or_negative(shape);
  if (!plain && multiply<T>(a, b, nullptr, c, shape)) return;
  if constexpr (kNarrow<T>) {
    if (std::min({shape.m, shape.n, shape.k}) < 0) return matmul_cpu<float>(nullptr, nullptr, nullptr, shape);
    multiply_floats<T>(a, b, nullptr, c, shape);
  } else {
    matmul_cpu(a, b, c, shape);
  }
}

std::string matmul_implementation(const MatmulShape& shape) {
  if (has_zero_or_negative(shape)) return "reference";
  const auto plan = plan_for<float>(shape, false);
  return plan->description ? plan->description.impl_info_str() : "reference";
}

template <typename T>
void linear_forward_onednn(const T* x, const T* weight, const std::type_identity_t<T>* bias, T* y,
                           const LinearShape& shape) {
  const MatmulShape product{.m = shape.batch, .n = shape.out, .k = shape.in, .transpose_b = true};
  if (!has_zero_or_negative(product) && multiply<T>(x, weight, bias, y, product)) return;
  if constexpr (kNarrow<T>) {
    multiply_floats<T>(x, weight, bias, y, product);
  } else {
    linear_forward_cpu(x, weight, bias, y, shape);
  }
}

template <typename T>
void linear_backward_data_onednn(const T* grad_y, const T* weight, T* grad_x, const LinearShape& shape) {
  matmul_onednn(grad_y, weight, grad_x, {.m = shape.batch, .n = shape.in, .k = shape.out});
}

template <typename T>
void linear_backward_weights_onednn(const T* x, const T* grad_y, T* grad_weight, std::type_identity_t<T>* grad_bias,
                                    const LinearShape& shape) {
  matmul_onednn(grad_y, x, grad_weight, {.m = shape.out, .n = shape.in, .k = shape.batch, .transpose_a = true});
  if (grad_bias != nullptr) column_sum(grad_y, grad_bias, shape.batch, shape.out);
}

int64_t matmul_fallbacks() { return fallback_count(); }

template void matmul_onednn(const float*, const float*, float*, const MatmulShape&);
template void linear_forward_onednn(const float*, const float*, const float*, float*, const LinearShape&);
template void linear_backward_data_onednn(const float*, const float*, float*, const LinearShape&);
template void linear_backward_weights_onednn(const float*, const float*, float*, float*, const LinearShape&);
template void matmul_onednn(const Half*, const Half*, Half*, const MatmulShape&);
template void linear_forward_onednn(const Half*, const Half*, const Half*, Half*, const LinearShape&);
template void linear_backward_data_onednn(const Half*, const Half*, Half*, const LinearShape&);
template void linear_backward_weights_onednn(const Half*, const Half*, Half*, Half*, const LinearShape&);
template void matmul_onednn(const BFloat16*, const BFloat16*, BFloat16*, const MatmulShape&);
template void linear_forward_onednn(const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*, const LinearShape&);
template void linear_backward_data_onednn(const BFloat16*, const BFloat16*, BFloat16*, const LinearShape&);
template void linear_backward_weights_onednn(const BFloat16*, const BFloat16*, BFloat16*, BFloat16*,
                                             const LinearShape&);

}  // namespace engine::kernels
