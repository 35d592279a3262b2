#pragma once
// Convolutions on the device through plans: cuDNN's graph API on a GPU ("cuDNN Frontend API", version 1.x, and "cuDNN
// backend API", version 9), the fast CPU path on the emulated device. The same shapes, layouts and definitions as in
// conv2d.h. All results are overwritten, weight gradients too. A convolution's bias is not part of a plan
// (kernels/bias adds it).
//
// A plan may carry more than the convolution (ConvFusion): what comes before it is then never written, and per-channel
// sums of what comes out of it cost no pass of their own. conv2d_fusion.h says which forms a GPU has. The emulated
// device has them all, as compositions of plain parts (conv2d_emulated_forms.h).

#include <cstdint>
#include <filesystem>
#include <string>

#include "kernels/common/device.h"
#include "kernels/common/element_type.h"
#include "kernels/conv2d/conv2d.h"

namespace engine::kernels {

/// What is applied to the convolution's image input (x; forward and backward_weights). Vectors hold one value a
/// channel.
enum class ConvPrologue {
  none,
  scale_bias_relu,           // relu(x * scale + bias)
  scale_bias_add_relu,       // relu(x * scale + bias + residual), also written to `activated`; forward only
  dual_scale_bias_add_relu,  // relu(x * scale + bias + residual * residual_scale + residual_bias), likewise
};

/// What happens to the convolution's result.
enum class ConvEpilogue {
  none,
  statistics,  // forward: sum and sum of squares of y over n, h, w
  // backward_data; with z = (norm.x - mean) * invstd * gamma + beta, the batch norm whose ReLU made this convolution's
  // input, and g the convolution's gradient:
  norm_backward,           // grad_x = 0 where z <= 0, else g, and the sums of the batch norm's backward pass
  add_norm_backward,       // g += shortcut_grad first; the ReLU's argument is z + residual: the end of a block
  add_dual_norm_backward,  // likewise, the ReLU's argument is z + z of residual_norm, and sums for both
};

struct ConvFusion {
  ConvPrologue prologue = ConvPrologue::none;
  ConvEpilogue epilogue = ConvEpilogue::none;
  bool operator==(const ConvFusion&) const = default;
};

/// "none", or the parts joined by '+': "scale_bias_relu+statistics".
std::string conv_fusion_name(const ConvFusion& fusion);

struct ConvPlanKey {
  Conv2dShape shape;
  ConvDirection direction = ConvDirection::forward;
  ElementType type = ElementType::f32;  // of images, filters and their gradients
  ConvFusion fusion{};
  bool operator==(const ConvPlanKey&) const = default;
  /// Shape, direction, type and fusion in words; different for different keys.
  std::string str() const;
};

/// Memory of one run, all of it on the plan's device, 16-byte aligned, nothing overlapping; what the key does not ask
/// for may be null. "T" is the key's element type.
struct ConvBuffers {
  // The convolution: reads two of x, weight, grad_y; writes one of y, grad_x, grad_weight.
  const void* x = nullptr;       // T [n, h, w, c]
  const void* weight = nullptr;  // T [k, r, s, c / groups]
  const void* grad_y = nullptr;  // T [n, out_h, out_w, k]
  void* y = nullptr;
  void* grad_x = nullptr;
  void* grad_weight = nullptr;

  // Prologues.
  const void* scale = nullptr;           // T [c]
  const void* bias = nullptr;            // T [c]
  const void* residual = nullptr;        // T [n, h, w, c]; also read by add_norm_backward
  const void* residual_scale = nullptr;  // T [c]
  const void* residual_bias = nullptr;   // T [c]
  void* activated = nullptr;             // T [n, h, w, c], written

  // statistics.
  float* sum = nullptr;             // [k], written
  float* sum_of_squares = nullptr;  // [k], written

  // norm_backward and its relatives: a batch norm over [n, h, w, c], and the one of the residual.
  struct Norm {
    const void* x = nullptr;        // T [n, h, w, c]
    const float* mean = nullptr;    // [c], saved by the forward pass
    const float* invstd = nullptr;  // [c]
    const float* gamma = nullptr;   // [c]
    const float* beta = nullptr;    // [c]
    float* grad_gamma = nullptr;    // [c], written
    float* grad_beta = nullptr;     // [c], written
    float* scale_grad = nullptr;    // [c], written: the gradient of the norm's input is
    float* scale_x = nullptr;       // [c], written: grad_x * scale_grad + x * scale_x + offset
    float* offset = nullptr;        // [c], written
  };
  Norm norm{};
  Norm residual_norm{};                 // add_dual_norm_backward
  const void* shortcut_grad = nullptr;  // T [n, h, w, c], the add_ epilogues
};

/// A way to compute a key, chosen. Immutable; threads may run it at once with different buffers and workspaces.
class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  /// Device memory that run() needs beside the buffers, 256-byte aligned; may be 0.
  virtual int64_t workspace_bytes() const = 0;
  /// The library's name of the engine with its settings, or "emulated".
  virtual std::string engine() const = 0;
  /// Puts the work on the stream; `device` of the plan must be current. Can be captured in a graph. Throws
  /// LibraryError.
  virtual void run(const ConvBuffers& buffers, void* workspace, cudaStream_t stream) const = 0;

 protected:
  ConvPlan() = default;
  ConvPlan(const ConvPlan&) = delete;
  ConvPlan& operator=(const ConvPlan&) = delete;
};

struct ConvPlanOptions {
  /// Times every plan that the library has for a key and takes the fastest, in place of what its heuristics put first.
  /// Allocates device memory for the trial, and so must not happen during graph capture.
  bool search = false;
  /// Only plans that give the same bits at every run.
  bool deterministic = false;
  /// Plans that need more are passed over.
  int64_t workspace_limit_bytes = int64_t{16} << 30;
  /// What searches chose is kept here, one file a key, under the GPU's name and the library's version, and taken by
  /// later processes whether they search or not. Files are written whole or not at all; damaged ones, and those whose
  /// engine the library no longer has, are ignored. Empty: no files.
  std::filesystem::path cache_folder{};
};

/// The plan of a key on a device, made at the first request and kept for the life of the process; later requests get
/// the same object, whatever their options. Threads may call at once. Throws LibraryError where the library is
/// missing (library_handles.h) or has no plan for the key, std::invalid_argument for a shape that is not valid or a
/// fusion that makes no sense in the key's direction.
const ConvPlan& conv2d_plan(int device, const ConvPlanKey& key, const ConvPlanOptions& options = {});

}  // namespace engine::kernels
