// Every op forward and backward against PyTorch, in double on the reference kernels and in float on the fast ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/autograd/backward.h"
#include "engine/ops/add.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/cast.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/linear.h"
#include "engine/ops/pool2d.h"
#include "engine/ops/relu.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/ops/view.h"
#include "tests/support/golden_tensor.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using Json = nlohmann::json;

/// One case of a golden file: its tensors by name in the type under test.
class OpCase {
 public:
  OpCase(const GoldenFile& file, const Json& entry, DType dtype) : file_(file), entry_(entry), dtype_(dtype) {
    for (const auto& name : entry.at("inputs")) set_requires_grad(inputs_[name] = read(name, dtype));
    for (const auto& name : entry.at("constants")) {
      inputs_[name] = read(name, name == "target" ? DType::i64 : dtype);
    }
  }

  std::string name() const { return entry_.at("name"); }
  const Json& attributes() const { return entry_.at("attributes"); }
  /// Undefined where the case has none of that name.
  Tensor input(const std::string& name) const { return inputs_.contains(name) ? inputs_.at(name) : Tensor(); }
  const GoldenTensor& golden(const std::string& name) const { return file_.at(this->name() + "/" + name); }

  /// Compares a result, then runs backward() and compares all gradients.
  /// `scale` is the size of y's summands where they cancel.
  void expect(const Tensor& y, double tol, double scale = 0) const {
    expect_output("y", y, tol, scale);
    backward(y, read("grad_y", y.dtype()));
    for (const auto& entry : entry_.at("inputs")) {
      const std::string grad = "grad_" + entry.get<std::string>();
      expect_output(grad, grad_of(inputs_.at(entry)), tol);
    }
  }

  void expect_output(const std::string& tensor, const Tensor& got, double tol, double scale = 0) const {
    const GoldenTensor& want = golden(tensor);
    const GoldenTensor values = golden_of(got);
    EXPECT_EQ(values.shape, want.shape) << name() << " " << tensor;
    ExpectClose(values.values, want.values, tol, name() + " " + tensor + " " + name_of(dtype_), scale);
  }

 private:
  Tensor read(const std::string& tensor, DType dtype) const { return tensor_of(golden(tensor), dtype); }

  const GoldenFile& file_;
  const Json& entry_;
  DType dtype_;
  std::map<std::string, Tensor> inputs_;
};

double tolerance_of(DType dtype, int64_t length, OpClass op_class) {
  return dtype == DType::f32 ? tolerance<float>(length, op_class) : tolerance<double>(length, op_class);
}

/// Runs `test` on every case of an op in both types; a case for which it says false is listed as skipped by name.
void for_each_case(const std::string& op, const std::function<bool(const OpCase&, DType)>& test) {
  const GoldenFile file("ops/" + op);
  ASSERT_FALSE(file.json().at("cases").empty());
  for (const Json& entry : file.json().at("cases")) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      if (test(OpCase(file, entry, dtype), dtype) || dtype == DType::f32) continue;
      std::cout << "[ SKIPPED  ] " << op << " " << entry.at("name")
                << ": attributes that the engine's op does not have\n";
    }
  }
}

bool square(const Json& pair) { return pair.at(0) == pair.at(1); }

TEST(GoldenOps, Conv2d) {
  for_each_case("conv2d", [](const OpCase& c, DType dtype) {
    const Json& a = c.attributes();
    for (const char* name : {"stride", "padding", "dilation"}) {
      if (!square(a.at(name))) return false;
    }
    const Conv2dOptions options{a["stride"][0], a["padding"][0], a["dilation"][0], a["groups"]};
    const Tensor weight = c.input("weight"), x = c.input("x");
    const int64_t length = std::max(weight.numel() / weight.dim(0), x.numel());
    c.expect(conv2d(x, weight, c.input("bias"), options), tolerance_of(dtype, length, OpClass::winograd));
    return true;
  });
}

TEST(GoldenOps, Linear) {
  for_each_case("linear", [](const OpCase& c, DType dtype) {
    const Tensor x = c.input("x");
    c.expect(linear(x, c.input("weight"), c.input("bias")), tolerance_of(dtype, x.numel(), OpClass::matmul));
    return true;
  });
}

TEST(GoldenOps, Flatten) {
  // A flatten of NHWC pictures has another order than PyTorch's: `linear` shows that the permuted weight makes up for
  // it.
  const GoldenFile file("ops/flatten");
  for (const Json& entry : file.json().at("cases")) {
    const OpCase c(file, entry, DType::f64);
    const Tensor x = c.input("x");
    const int64_t height = x.dim(1), width = x.dim(2), channels = x.dim(3);
    const Tensor flat = flatten(x);
    const GoldenTensor got = columns_to_channels_first(golden_of(flat), channels, height, width);
    if (c.name() == "alone") {
      EXPECT_EQ(got.values, c.golden("y").values);
      continue;
    }
    Tensor weight = tensor_of(columns_to_channels_last(c.golden("weight"), channels, height, width), DType::f64);
    set_requires_grad(weight);
    const Tensor y = linear(flat, weight);
    const double tol = tolerance<double>(x.numel(), OpClass::matmul);
    c.expect_output("y", y, tol);
    backward(y, tensor_of(c.golden("grad_y"), DType::f64));
    c.expect_output("grad_x", grad_of(x), tol);
    ExpectClose(columns_to_channels_first(golden_of(grad_of(weight)), channels, height, width).values,
                c.golden("grad_weight").values, tol, "grad_weight");
  }
}

TEST(GoldenOps, BatchNorm) {
  for_each_case("batch_norm", [](const OpCase& c, DType dtype) {
    const Json& a = c.attributes();
    const BatchNormState state{c.input("weight"), c.input("bias"), c.input("running_mean"), c.input("running_var")};
    const BatchNormOptions options{
        .training = a["train"], .relu = a["relu"], .momentum = a["momentum"], .eps = a["eps"]};
    // x - mean loses as many digits as the mean is larger than the deviation: a thousand times here.
    const double lost = c.name() == "train_large_mean" ? 1000 : 1;
    const double tol = lost * tolerance_of(dtype, c.input("x").numel(), OpClass::reduction);
    c.expect(batch_norm(c.input("x"), state, options, c.input("residual")), tol);
    c.expect_output("new_running_mean", state.running_mean, tol);
    c.expect_output("new_running_var", state.running_var, tol);
    return true;
  });
}

TEST(GoldenOps, Relu) {
  for_each_case("relu", [](const OpCase& c, DType dtype) {
    c.expect(relu(c.input("x")), tolerance_of(dtype, 1, OpClass::elementwise));
    return true;
  });
}

TEST(GoldenOps, Add) {
  for_each_case("add", [](const OpCase& c, DType dtype) {
    const Tensor a = c.input("a"), b = c.input("b");
    c.expect(add(a, b.defined() ? b : a), tolerance_of(dtype, 1, OpClass::elementwise));
    return true;
  });
}

TEST(GoldenOps, MaxPool2d) {
  for_each_case("max_pool2d", [](const OpCase& c, DType dtype) {
    const Json& a = c.attributes();
    if (!square(a["kernel_size"]) || !square(a["stride"]) || !square(a["padding"])) return false;
    const Pool2dOptions options{a["kernel_size"][0], a["stride"][0], a["padding"][0]};
    c.expect(max_pool2d(c.input("x"), options), tolerance_of(dtype, 9, OpClass::reduction));
    return true;
  });
}

TEST(GoldenOps, AvgPool2d) {
  for_each_case("avg_pool2d", [](const OpCase& c, DType dtype) {
    const Json& a = c.attributes();
    if (!square(a["kernel_size"]) || !square(a["stride"]) || !square(a["padding"])) return false;
    if (!a["count_include_pad"].get<bool>()) return false;
    const Pool2dOptions options{a["kernel_size"][0], a["stride"][0], a["padding"][0]};
    c.expect(avg_pool2d(c.input("x"), options), tolerance_of(dtype, 9, OpClass::reduction));
    return true;
  });
}

TEST(GoldenOps, GlobalAvgPool) {
  for_each_case("adaptive_avg_pool2d", [](const OpCase& c, DType dtype) {
    const Tensor x = c.input("x");
    if (c.attributes()["output_size"] != Json({1, 1})) return false;
    const Tensor y = reshape(global_avg_pool(x), {x.dim(0), 1, 1, x.dim(3)});
    c.expect(y, tolerance_of(dtype, x.dim(1) * x.dim(2), OpClass::reduction));
    return true;
  });
}

TEST(GoldenOps, SoftmaxCrossEntropy) {
  for_each_case("cross_entropy", [](const OpCase& c, DType dtype) {
    const Tensor x = c.input("x");
    const double tol =
        std::max(tolerance_of(dtype, 1, OpClass::transcendental), tolerance_of(dtype, x.dim(1), OpClass::reduction));
    // The loss is a difference of logits.
    const std::vector<double>& logits = c.golden("x").values;
    const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
    const Tensor y =
        softmax_cross_entropy(x, c.input("target"), {.label_smoothing = c.attributes()["label_smoothing"]});
    c.expect(y, tol, std::max(std::abs(*low), std::abs(*high)));
    return true;
  });
}

TEST(GoldenOps, Cast) {
  const GoldenFile file("ops/cast");
  const Tensor x = tensor_of(file.at("x"), DType::f32);
  for (const auto& [type, name] : {std::pair{DType::f16, "f16"}, std::pair{DType::bf16, "bf16"}}) {
    // Multiples of a half type's spacing are exact in double: within the tolerance they are equal. NaN equals NaN.
    const std::vector<double> got = cast(cast(x, type), DType::f64).to_vector<double>();
    const std::vector<double>& want = file.at(name).values;
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
          << name << " " << i << " " << got[i];
    }
  }
}

}  // namespace
}  // namespace engine::testing
