#pragma once
// Layers and models: named parameters and buffers, a mode, and a forward function.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"
#include "kernels/conv2d/conv2d.h"

namespace engine {

/// How a tensor's memory relates to the same tensor in a PyTorch file.
enum class FileLayout {
  plain,             // the same
  filter,            // [k, r, s, c] here, [k, c, r, s] there
  flattened_linear,  // [out, h * w * c] here, [out, c * h * w] there: the first linear layer after a flatten
};

/// What a parameter is for; weight decay differs.
enum class ParameterKind { weight, bias, norm };

/// A parameter or a buffer of a model. `tensor` is a handle: the memory is the model's.
struct NamedTensor {
  std::string name;  // torchvision's, e.g. "layer1.0.conv1.weight"
  Tensor tensor;
  FileLayout layout = FileLayout::plain;
  int64_t channels = 0;  // of the flattened picture, for flattened_linear
  ParameterKind kind = ParameterKind::weight;
};

/// What a layer is, for `info`: extents of one picture.
struct LayerDescription {
  std::string name;  // "layer1.0.conv1"
  std::string kind;  // "conv2d"
  Shape output_shape;
  int64_t parameters = 0;
  int64_t macs = 0;                                      // multiply-adds for one picture
  std::optional<kernels::Conv2dShape> convolution = {};  // of one picture; for conv2d only
};

/// A part of a model. Children are members of the concrete class and are registered in its constructor, so that names
/// follow the tree as in PyTorch.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Images are [n, h, w, c].
  virtual Tensor forward(const Tensor& input) = 0;
  /// forward(), through checkpoint() (engine/autograd/checkpoint.h) in training where set_checkpointed() asks for it.
  Tensor operator()(const Tensor& input);

  /// Whether this is a part that activation checkpointing takes as a whole, such as a residual block.
  virtual bool is_block() const { return false; }
  /// The blocks of this tree with their names, in the order of registration.
  std::vector<std::pair<std::string, Module*>> blocks() const;
  /// The backward pass computes this module's activations again instead of keeping them.
  void set_checkpointed(bool checkpointed) { checkpointed_ = checkpointed; }
  bool checkpointed() const { return checkpointed_; }

  /// Sees the output of each layer as it is computed by this thread, to find where values go wrong; empty: nobody
  /// looks.
  using OutputObserver = std::function<void(const Module& layer, const Tensor& output)>;
  static void set_output_observer(OutputObserver observer);
  /// The name of a layer of this tree, e.g. "layer1.0.bn2"; empty where it is not part of it.
  std::string name_of(const Module& layer) const;

  /// All parameters of the tree, in the order of registration, which is PyTorch's.
  std::vector<NamedTensor> parameters() const;
  /// Running statistics and the like: saved, but without gradients.
  std::vector<NamedTensor> buffers() const;
  /// Appends this module's layers with the shapes that a picture of shape `input` {h, w, c} takes, and returns the
  /// shape of the output.
  virtual Shape describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const = 0;

  /// Training mode (the default) or evaluation: batch norm and dropout differ.
  void set_training(bool training);
  bool training() const { return training_; }

  /// Replaces parameters and running statistics by copies of another floating type, e.g. f64 to check gradients. To be
  /// called before anybody holds handles to them.
  void convert(DType dtype);

  /// Replaces a parameter's memory, e.g. by a view into a flat buffer; the values are the caller's to copy.
  void rebind_parameters(const std::function<Tensor(const NamedTensor&)>& new_memory);
  /// The same for buffers.
  void rebind_buffers(const std::function<Tensor(const NamedTensor&)>& new_memory);

 protected:
  /// Registration, called by constructors; `parameter`, `buffer` and `child` must be members. Marks the parameter as a
  /// leaf that requires a gradient.
  void register_parameter(NamedTensor description, Tensor& parameter);
  void register_buffer(std::string name, Tensor& buffer);
  void register_child(std::string name, Module& child);
  /// Shows a layer's output to the observer and passes it on.
  Tensor observed(Tensor output) const;

 private:
  struct Slot {
    NamedTensor description;  // its tensor is filled in when it is asked for
    Tensor* tensor;
  };
  template <typename F>
  void visit(const std::string& prefix, std::vector<Slot> Module::*slots, F&& f) const;

  bool training_ = true;
  bool checkpointed_ = false;
  std::vector<Slot> parameters_;
  std::vector<Slot> buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
};

/// Moves parameters and f32 buffers to a device; counters stay on the host. To be called before anybody holds handles
/// to them.
void move_to(Module& model, Device device);
/// Where a model's parameters are; the CPU for one without.
Device device_of(const Module& model);
/// The type of a model's first parameter, which pictures are to be given in; f32 for one without.
DType compute_dtype_of(const Module& model);

}  // namespace engine
