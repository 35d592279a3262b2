#include <map>
#include <mutex>
#include <tuple>

#include "kernels/common/cublaslt_library.h"
#include "kernels/common/cuda_error.h"
#include "kernels/common/library_handles.h"
#include "kernels/matmul/matmul_device.h"

namespace engine::kernels {
namespace {

// What NVIDIA's "cuBLAS" documentation recommends for Hopper; earlier chips need less.
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

cudaDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return CUDA_R_16F;
    case ElementType::bf16:
      return CUDA_R_16BF;
    case ElementType::f32:
    case ElementType::tf32:
      break;
  }
  return CUDA_R_32F;
}

/// A product as the library sees it, in its column-major terms: d[m, n] = op(a) op(b), with lda rows in a's memory. A
/// row-major matrix is the transpose of a column-major one.
struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  bool bias;
  ElementType type;
  int device;
  auto tie() const { return std::tie(m, n, k, transpose_a, transpose_b, bias, type, device); }
  bool operator<(const Product& other) const { return tie() < other.tie(); }
};

/// One of the library's descriptors.
template <typename Handle>
class Owned {
 public:
  Owned(Handle handle, cublasStatus_t (*destroy)(Handle)) : handle_(handle), destroy_(destroy) {}
  ~Owned() { destroy_(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle get() const { return handle_; }

 private:
  Handle handle_;
  cublasStatus_t (*destroy_)(Handle);
};

Owned<cublasLtMatmulDesc_t> describe(const Product& product, const void* bias) {
  const CublasLt& lt = cublaslt();
  cublasLtMatmulDesc_t made = nullptr;
  const auto compute = product.type == ElementType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_cublaslt(lt.matmul_desc_create(&made, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check_cublaslt(lt.matmul_desc_set(made, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (product.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  return {made, lt.matmul_desc_destroy};
}

Owned<cublasLtMatrixLayout_t> layout(ElementType type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check_cublaslt(cublaslt().layout_create(&made, data_type(type), static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(columns), rows),
                 "cublasLtMatrixLayoutCreate");
  return {made, cublaslt().layout_destroy};
}

struct Layouts {
  explicit Layouts(const Product& p)
      : a(p.transpose_a ? layout(p.type, p.k, p.m) : layout(p.type, p.m, p.k)),
        b(p.transpose_b ? layout(p.type, p.n, p.k) : layout(p.type, p.k, p.n)),
        d(layout(p.type, p.m, p.n)) {}
  Owned<cublasLtMatrixLayout_t> a, b, d;
};

Owned<cublasLtMatmulPreference_t> preference() {
  const CublasLt& lt = cublaslt();
  cublasLtMatmulPreference_t made = nullptr;
  check_cublaslt(lt.preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_cublaslt(lt.preference_set(made, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspaceBytes));
  // Partial sums stay in FP32 and are added in a fixed order.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(attribute, uint32_t{16});
  }
  return {made, lt.preference_destroy};
}

cublasLtMatmulAlgo_t algorithm(const Product& product, cublasLtMatmulDesc_t description, const Layouts& layouts) {
  static std::mutex mutex;
  static std::map<Product, cublasLtMatmulAlgo_t> chosen;
  const std::lock_guard lock(mutex);
  const auto found = chosen.find(product);
  if (found != chosen.end()) return found->second;
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const auto wishes = preference();
  check_cublaslt(cublaslt().heuristic(cublaslt_handle(product.device), description, layouts.a.get(), layouts.b.get(),
                                      layouts.d.get(), layouts.d.get(), wishes.get(), 1, &result, &count),
                 "cublasLtMatmulAlgoGetHeuristic");
  if (count == 0) throw LibraryError("cuBLASLt has no algorithm for a matrix product");
  return chosen[product] = result.algo;
}

struct Operands {
  const void* a;
  const void* b;
  const void* bias;
  void* d;
};

void multiply(const LinearDevice& layer, const Product& product, const Operands& operands, cudaStream_t stream) {
  if (product.m == 0 || product.n == 0) return;
  const auto description = describe(product, operands.bias);
  const Layouts layouts(product);
  const cublasLtMatmulAlgo_t chosen = algorithm(product, description.get(), layouts);
  const float one = 1, zero = 0;
  check_cublaslt(
      cublaslt().matmul(cublaslt_handle(layer.device), description.get(), &one, operands.a, layouts.a.get(), operands.b,
                        layouts.b.get(), &zero, operands.d, layouts.d.get(), operands.d, layouts.d.get(), &chosen,
                        layer.workspace, static_cast<size_t>(kWorkspaceBytes), stream),
      "cublasLtMatmul");
}

}  // namespace

int64_t linear_device_workspace_bytes() { return kWorkspaceBytes; }

void linear_forward_device(const LinearDevice& layer, const void* x, const void* weight, const void* bias, void* y,
                           cudaStream_t stream) {
  const auto [batch, in, out] = layer.shape;
  multiply(layer, {out, batch, in, true, false, bias != nullptr, layer.type, layer.device}, {weight, x, bias, y},
           stream);
}

void linear_backward_data_device(const LinearDevice& layer, const void* grad_y, const void* weight, void* grad_x,
                                 cudaStream_t stream) {
  const auto [batch, in, out] = layer.shape;
  multiply(layer, {in, batch, out, false, false, false, layer.type, layer.device}, {weight, grad_y, nullptr, grad_x},
           stream);
}

void linear_backward_weights_device(const LinearDevice& layer, const void* x, const void* grad_y, void* grad_weight,
                                    cudaStream_t stream) {
  const auto [batch, in, out] = layer.shape;
  if (batch == 0) {
    const auto bytes = static_cast<size_t>(in * out * element_bytes(layer.type));
    check_cuda(cudaMemsetAsync(grad_weight, 0, bytes, stream), "cudaMemsetAsync");
    return;
  }
  multiply(layer, {in, out, batch, false, true, false, layer.type, layer.device}, {x, grad_y, nullptr, grad_weight},
           stream);
}

}  // namespace engine::kernels
