#include "kernels/conv2d/conv2d_cudnn_graphs.h"

#include <array>
#include <vector>

#include "kernels/common/cudnn_library.h"
#include "kernels/common/library_handles.h"

#if !defined(CUDNN_FRONTEND_SKIP_JSON_LIB) || !defined(NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING)
#error "kernels/CMakeLists.txt sets these two for cudnn-frontend: without its own JSON library, cuDNN by dlopen()"
#endif
#include <cudnn_frontend.h>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace engine::kernels {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;
using Mode = fe::PointwiseMode_t;

/// What a tensor of the graph is called at run time; order and values are free, 0 is cuDNN's own.
enum Uid : int64_t {
  kX = 1,
  kWeight,
  kGradY,
  kY,
  kGradX,
  kGradWeight,
  kScale,
  kBias,
  kResidual,
  kResidualScale,
  kResidualBias,
  kActivated,
  kSum,
  kSumOfSquares,
  kShortcutGrad,
  kNorm,  // ten from here on, as in ConvBuffers::Norm
  kResidualNorm = kNorm + 10,
  kUids = kResidualNorm + 10
};
enum NormUid : int64_t { kNormX, kMean, kInvstd, kGamma, kBeta, kGradGamma, kGradBeta, kScaleGrad, kScaleX, kOffset };

void list_norm(std::array<void*, kUids>& pointers, int64_t first, const ConvBuffers::Norm& norm) {
  const auto at = [&](NormUid uid) -> void*& { return pointers[static_cast<size_t>(first + uid)]; };
  at(kNormX) = const_cast<void*>(norm.x);
  at(kMean) = const_cast<float*>(norm.mean);
  at(kInvstd) = const_cast<float*>(norm.invstd);
  at(kGamma) = const_cast<float*>(norm.gamma);
  at(kBeta) = const_cast<float*>(norm.beta);
  at(kGradGamma) = norm.grad_gamma;
  at(kGradBeta) = norm.grad_beta;
  at(kScaleGrad) = norm.scale_grad;
  at(kScaleX) = norm.scale_x;
  at(kOffset) = norm.offset;
}

std::array<void*, kUids> list_buffers(const ConvBuffers& b) {
  std::array<void*, kUids> pointers{};
  pointers[kX] = const_cast<void*>(b.x);
  pointers[kWeight] = const_cast<void*>(b.weight);
  pointers[kGradY] = const_cast<void*>(b.grad_y);
  pointers[kY] = b.y;
  pointers[kGradX] = b.grad_x;
  pointers[kGradWeight] = b.grad_weight;
  pointers[kScale] = const_cast<void*>(b.scale);
  pointers[kBias] = const_cast<void*>(b.bias);
  pointers[kResidual] = const_cast<void*>(b.residual);
  pointers[kResidualScale] = const_cast<void*>(b.residual_scale);
  pointers[kResidualBias] = const_cast<void*>(b.residual_bias);
  pointers[kActivated] = b.activated;
  pointers[kSum] = b.sum;
  pointers[kSumOfSquares] = b.sum_of_squares;
  pointers[kShortcutGrad] = const_cast<void*>(b.shortcut_grad);
  list_norm(pointers, kNorm, b.norm);
  list_norm(pointers, kResidualNorm, b.residual_norm);
  return pointers;
}

fe::DataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return fe::DataType_t::HALF;
    case ElementType::bf16:
      return fe::DataType_t::BFLOAT16;
    case ElementType::f32:
    case ElementType::tf32:
      break;
  }
  return fe::DataType_t::FLOAT;
}

[[noreturn]] void refuse(const std::string& what, fe::error_object error) {
  std::string words = error.get_message();
  for (char& letter : words) {
    if (letter == '\n') letter = ' ';
  }
  throw LibraryError("cuDNN " + what + ": " + words);
}

/// Builds the tensors and operations of one key. cuDNN names the extents n, c, h, w (k, c, r, s) whatever their order
/// in memory, which strides tell.
class Builder {
 public:
  Builder(Graph& graph, const ConvPlanKey& key) : graph_(graph), key_(key), type_(data_type(key.type)) {}

  void build() {
    switch (key_.direction) {
      case ConvDirection::forward:
        return forward();
      case ConvDirection::backward_data:
        return backward_data();
      case ConvDirection::backward_weights:
        return backward_weights();
    }
  }

 private:
  using Extents = std::array<int64_t, 4>;

  TensorPtr tensor(int64_t uid, const Extents& d, fe::DataType_t type) {
    return graph_.tensor(Tensor_attributes()
                             .set_uid(uid)
                             .set_name("t" + std::to_string(uid))
                             .set_dim({d[0], d[1], d[2], d[3]})
                             .set_stride({d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]})
                             .set_data_type(type));
  }
  TensorPtr image(int64_t uid) { return tensor(uid, image_extents(), type_); }
  TensorPtr vector(int64_t uid, fe::DataType_t type) { return tensor(uid, {1, key_.shape.c, 1, 1}, type); }
  TensorPtr weight() { return tensor(kWeight, filter_extents(), type_); }
  TensorPtr grad_y() {
    const Conv2dShape& shape = key_.shape;
    return tensor(kGradY, {shape.n, shape.k, shape.out_h(), shape.out_w()}, type_);
  }
  Extents image_extents() const { return {key_.shape.n, key_.shape.c, key_.shape.h, key_.shape.w}; }
  Extents filter_extents() const {
    return {key_.shape.k, key_.shape.c / key_.shape.groups, key_.shape.r, key_.shape.s};
  }

  static void write(const TensorPtr& result, int64_t uid, fe::DataType_t type) {
    result->set_output(true).set_uid(uid).set_data_type(type);
  }
  TensorPtr apply(Mode mode, const TensorPtr& a, const TensorPtr& b) {
    return graph_.pointwise(a, b, fe::graph::Pointwise_attributes().set_mode(mode));
  }
  TensorPtr relu(const TensorPtr& a) {
    return graph_.pointwise(a, fe::graph::Pointwise_attributes().set_mode(Mode::RELU_FWD));
  }

  template <typename Attributes>
  Attributes geometry() const {
    const Conv2dShape& shape = key_.shape;
    return Attributes()
        .set_padding({shape.pad_h, shape.pad_w})
        .set_stride({shape.stride_h, shape.stride_w})
        .set_dilation({shape.dilation_h, shape.dilation_w});
  }

  /// x as the convolution sees it.
  TensorPtr prologue() {
    TensorPtr z = image(kX);
    if (key_.fusion.prologue == ConvPrologue::none) return z;
    z = apply(Mode::ADD, apply(Mode::MUL, z, vector(kScale, type_)), vector(kBias, type_));
    if (key_.fusion.prologue == ConvPrologue::scale_bias_relu) return relu(z);
    TensorPtr added = image(kResidual);
    if (key_.fusion.prologue == ConvPrologue::dual_scale_bias_add_relu) {
      added = apply(Mode::MUL, added, vector(kResidualScale, type_));
      added = apply(Mode::ADD, added, vector(kResidualBias, type_));
    }
    const TensorPtr activated = relu(apply(Mode::ADD, z, added));
    write(activated, kActivated, type_);
    return activated;
  }

  void forward() {
    const TensorPtr x = prologue();
    const TensorPtr y = graph_.conv_fprop(x, weight(), geometry<fe::graph::Conv_fprop_attributes>());
    write(y, kY, type_);
    if (key_.fusion.epilogue == ConvEpilogue::none) return;
    const auto sums = graph_.genstats(y, fe::graph::Genstats_attributes());
    write(sums[0], kSum, fe::DataType_t::FLOAT);
    write(sums[1], kSumOfSquares, fe::DataType_t::FLOAT);
  }

  void backward_weights() {
    // Only with half-precision operations does the library find its fused form.
    if (key_.fusion.prologue != ConvPrologue::none) graph_.set_intermediate_data_type(type_);
    const TensorPtr x = prologue();
    const TensorPtr result = graph_.conv_wgrad(grad_y(), x, geometry<fe::graph::Conv_wgrad_attributes>());
    const Extents d = filter_extents();
    result->set_dim({d[0], d[1], d[2], d[3]}).set_stride({d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]});
    write(result, kGradWeight, type_);
  }

  void backward_data() {
    TensorPtr grad = graph_.conv_dgrad(grad_y(), weight(), geometry<fe::graph::Conv_dgrad_attributes>());
    const Extents d = image_extents();
    grad->set_dim({d[0], d[1], d[2], d[3]}).set_stride({d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]});
    if (key_.fusion.epilogue != ConvEpilogue::none) grad = norm_backward(grad);
    write(grad, kGradX, type_);
  }

  struct NormInputs {
    TensorPtr x, mean, invstd, gamma, beta;
  };
  NormInputs norm_inputs(int64_t first) {
    const auto of = [&](NormUid uid) { return vector(first + uid, fe::DataType_t::FLOAT); };
    return {image(first + kNormX), of(kMean), of(kInvstd), of(kGamma), of(kBeta)};
  }
  TensorPtr normalised(const NormInputs& norm) {
    const TensorPtr centred = apply(Mode::MUL, apply(Mode::SUB, norm.x, norm.mean), norm.invstd);
    return apply(Mode::ADD, apply(Mode::MUL, centred, norm.gamma), norm.beta);
  }
  void norm_sums(const TensorPtr& grad, const NormInputs& norm, int64_t first) {
    auto sums = graph_.dbn_weight(grad, norm.x, norm.mean, norm.invstd, norm.gamma, fe::graph::DBN_weight_attributes());
    for (size_t i = 0; i < sums.size(); ++i) {
      write(sums[i], first + kGradGamma + static_cast<int64_t>(i), fe::DataType_t::FLOAT);
    }
  }

  TensorPtr norm_backward(TensorPtr grad) {
    const ConvEpilogue epilogue = key_.fusion.epilogue;
    if (epilogue != ConvEpilogue::norm_backward) grad = apply(Mode::ADD, grad, image(kShortcutGrad));
    const NormInputs norm = norm_inputs(kNorm);
    NormInputs residual_norm;
    TensorPtr argument = normalised(norm);
    if (epilogue == ConvEpilogue::add_norm_backward) argument = apply(Mode::ADD, argument, image(kResidual));
    if (epilogue == ConvEpilogue::add_dual_norm_backward) {
      residual_norm = norm_inputs(kResidualNorm);
      argument = apply(Mode::ADD, argument, normalised(residual_norm));
    }
    const TensorPtr masked = apply(Mode::RELU_BWD, grad, argument);
    write(masked, kGradX, type_);
    norm_sums(masked, norm, kNorm);
    if (epilogue == ConvEpilogue::add_dual_norm_backward) norm_sums(masked, residual_norm, kResidualNorm);
    return masked;
  }

  Graph& graph_;
  const ConvPlanKey& key_;
  fe::DataType_t type_;
};

}  // namespace

struct ConvGraph::State {
  Graph graph;
  std::vector<int64_t> uids;  // in the order in which the library takes pointers
  std::string failure;
};

ConvGraph::ConvGraph(const ConvPlanKey& key, const ConvGraphTarget& target, const ConvPlanOptions& options)
    : state_(std::make_unique<State>()) {
  fe::cudnn_dlhandle = cudnn_library();
  Graph& graph = state_->graph;
  graph.set_sm_version(target.sm_version)
      .set_io_data_type(data_type(key.type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (target.handle == nullptr) {
    const auto properties = std::make_shared<fe::DeviceProperties>();
    const auto read = properties->deserialize({target.device_json.begin(), target.device_json.end()});
    if (read.is_bad()) refuse("device description", read);
    graph.set_device_properties(properties);
  }
  Builder(graph, key).build();
  auto status = graph.validate();
  if (status.is_good()) status = graph.build_operation_graph(target.handle);
  if (status.is_good()) status = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (status.is_bad()) refuse("has no plan for " + key.str(), status);

  std::vector<fe::NumericalNote_t> unwanted;
  if (options.deterministic) unwanted.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  if (key.type == ElementType::f32) {
    unwanted.push_back(fe::NumericalNote_t::TENSOR_CORE);
    unwanted.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
  }
  graph.deselect_numeric_notes(unwanted);
  graph.deselect_workspace_greater_than(options.workspace_limit_bytes);
}

ConvGraph::~ConvGraph() = default;

int64_t ConvGraph::candidates() const { return state_->graph.get_execution_plan_count(); }

std::string ConvGraph::name(int64_t candidate) const {
  std::string name;
  const auto status = state_->graph.get_plan_name_at_index(candidate, name);
  return status.is_good() ? name : "unknown";
}

bool ConvGraph::build(int64_t candidate) {
  auto status = state_->graph.build_plan_at_index(candidate);
  if (status.is_good()) status = state_->graph.prepare_variant_pack_template();
  if (status.is_bad()) {
    state_->failure = status.get_message();
    return false;
  }
  state_->uids = state_->graph.get_variant_pack_uids_sorted();
  return true;
}

const std::string& ConvGraph::failure() const { return state_->failure; }

int64_t ConvGraph::workspace_bytes(int64_t candidate) const {
  return state_->graph.get_workspace_size_plan_at_index(candidate);
}

void ConvGraph::run(int64_t candidate, cudnnContext* handle, const ConvBuffers& buffers, void* workspace) const {
  const std::array<void*, kUids> listed = list_buffers(buffers);
  std::vector<void*> pointers;
  for (const int64_t uid : state_->uids) pointers.push_back(listed[static_cast<size_t>(uid)]);
  const auto status = state_->graph.execute_plan_at_index(handle, pointers.data(), static_cast<int>(pointers.size()),
                                                          workspace, candidate);
  if (status.is_bad()) refuse("run of " + name(candidate), status);
}

}  // namespace engine::kernels
