#include <atomic>

#include "kernels/common/half.h"
#include "kernels/common/onednn.h"
#include "kernels/common/wide.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_onednn.h"
#include "kernels/conv2d/conv2d_select.h"
#include "kernels/conv2d/conv2d_through_floats.h"
#include "kernels/conv2d/conv2d_winograd.h"
#include "kernels/matmul/matmul.h"

namespace engine::kernels {
namespace {

std::atomic<int64_t>& fallback_count() {
  static std::atomic<int64_t> count{0};
  return count;
}

template <typename T>
bool library_pays() {
  return std::is_same_v<T, float> || (std::is_same_v<T, BFloat16> && onednn_has_bf16());
}

// A processor that multiplies BFloat16 does so in the library; the project's own algorithms multiply floats.
template <typename T>
ConvAlgorithm algorithm_for(const Conv2dShape& shape, ConvDirection direction) {
  return kNarrow<T> && library_pays<T>() ? ConvAlgorithm::onednn : conv2d_select(shape, direction);
}

// Whether the library has done it; run(float or BFloat16) is called where that is worth while.
template <typename T, typename Run>
bool by_library(Run&& run) {
  if constexpr (!std::is_same_v<T, Half>) {
    if (!library_pays<T>()) return false;
    if (run(T())) return true;
    ++fallback_count();
  }
  return false;
}

template <typename T>
void library_forward(const T* x, const T* weight, const T* bias, T* y, const Conv2dShape& shape) {
  if (by_library<T>([&](auto) { return conv2d_forward_onednn(x, weight, bias, y, shape); })) return;
  if constexpr (kNarrow<T>) {
    conv2d_forward_through_floats(x, weight, bias, y, shape);
  } else {
    conv2d_forward_cpu(x, weight, bias, y, shape);
  }
}

template <typename T>
void library_backward_data(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape) {
  if (by_library<T>([&](auto) { return conv2d_backward_data_onednn(grad_y, weight, grad_x, shape); })) return;
  if constexpr (kNarrow<T>) {
    conv2d_backward_data_through_floats(grad_y, weight, grad_x, shape);
  } else {
    conv2d_backward_data_cpu(grad_y, weight, grad_x, shape);
  }
}

template <typename T>
void library_backward_weights(const T* x, const T* grad_y, T* grad_weight, const Conv2dShape& shape) {
  if (by_library<T>([&](auto) { return conv2d_backward_weights_onednn(x, grad_y, grad_weight, shape); })) return;
  if constexpr (kNarrow<T>) {
    conv2d_backward_weights_through_floats(x, grad_y, grad_weight, shape);
  } else {
    conv2d_backward_weights_cpu<T>(x, grad_y, grad_weight, nullptr, shape);
  }
}

}  // namespace

template <typename T>
void conv2d_forward_fast(const T* x, const T* weight, const std::type_identity_t<T>* bias, T* y,
                         const Conv2dShape& shape) {
  shape.require_valid();
  switch (algorithm_for<T>(shape, ConvDirection::forward)) {
    case ConvAlgorithm::onednn:
      return library_forward(x, weight, bias, y, shape);
    case ConvAlgorithm::gemm:
      return conv2d_forward_gemm(x, weight, bias, y, shape);
    case ConvAlgorithm::winograd:
      return conv2d_forward_winograd(x, weight, bias, y, shape);
  }
}

template <typename T>
void conv2d_backward_data_fast(const T* grad_y, const T* weight, T* grad_x, const Conv2dShape& shape) {
  shape.require_valid();
  switch (algorithm_for<T>(shape, ConvDirection::backward_data)) {
    case ConvAlgorithm::onednn:
      return library_backward_data(grad_y, weight, grad_x, shape);
    case ConvAlgorithm::gemm:
      return conv2d_backward_data_gemm(grad_y, weight, grad_x, shape);
    case ConvAlgorithm::winograd:
      return conv2d_backward_data_winograd(grad_y, weight, grad_x, shape);
  }
}

template <typename T>
void conv2d_backward_weights_fast(const T* x, const T* grad_y, T* grad_weight, std::type_identity_t<T>* grad_bias,
                                  const Conv2dShape& shape) {
  shape.require_valid();
  switch (algorithm_for<T>(shape, ConvDirection::backward_weights)) {
    case ConvAlgorithm::onednn:
      library_backward_weights(x, grad_y, grad_weight, shape);
      break;
    case ConvAlgorithm::gemm:
      conv2d_backward_weights_gemm(x, grad_y, grad_weight, shape);
      break;
    case ConvAlgorithm::winograd:
      conv2d_backward_weights_winograd(x, grad_y, grad_weight, shape);
      break;
  }
  if (grad_bias != nullptr) column_sum(grad_y, grad_bias, shape.y_numel() / shape.k, shape.k);
}

template <typename T>
std::string conv2d_implementation(const Conv2dShape& shape, ConvDirection direction) {
  shape.require_valid();
  switch (algorithm_for<T>(shape, direction)) {
    case ConvAlgorithm::onednn:
      if constexpr (std::is_same_v<T, BFloat16>) {
        const std::string own = library_pays<T>() ? conv2d_onednn_implementation<T>(shape, direction) : "reference";
        if (own != "reference") return own;
      }
      if constexpr (kNarrow<T>) return conv2d_implementation<float>(shape, direction);
      return conv2d_onednn_implementation<float>(shape, direction);
    case ConvAlgorithm::gemm:
      return "gemm";
    case ConvAlgorithm::winograd:
      return "winograd";
  }
  return "reference";
}

int64_t conv2d_fallbacks() { return fallback_count(); }

template void conv2d_forward_fast(const float*, const float*, const float*, float*, const Conv2dShape&);
template void conv2d_forward_fast(const Half*, const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_forward_fast(const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template void conv2d_backward_data_fast(const float*, const float*, float*, const Conv2dShape&);
template void conv2d_backward_data_fast(const Half*, const Half*, Half*, const Conv2dShape&);
template void conv2d_backward_data_fast(const BFloat16*, const BFloat16*, BFloat16*, const Conv2dShape&);
template void conv2d_backward_weights_fast(const float*, const float*, float*, float*, const Conv2dShape&);
template void conv2d_backward_weights_fast(const Half*, const Half*, Half*, Half*, const Conv2dShape&);
template void conv2d_backward_weights_fast(const BFloat16*, const BFloat16*, BFloat16*, BFloat16*, const Conv2dShape&);
template std::string conv2d_implementation<float>(const Conv2dShape&, ConvDirection);
template std::string conv2d_implementation<Half>(const Conv2dShape&, ConvDirection);
template std::string conv2d_implementation<BFloat16>(const Conv2dShape&, ConvDirection);

}  // namespace engine::kernels
