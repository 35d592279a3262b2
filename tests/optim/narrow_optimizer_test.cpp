// Updates on the CPU with 16-bit gradients and a compute copy against those in FP32 from the same numbers.

#include <gtest/gtest.h>

#include "engine/ops/cast.h"
#include "engine/optim/optimizer.h"
#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

std::vector<float> floats_of(const Tensor& tensor) { return cast(tensor, DType::f32).to_vector<float>(); }

struct NarrowCase {
  std::string opt;
  DType dtype;
  double momentum;
};

class NarrowOptimizerTest : public ::testing::TestWithParam<NarrowCase> {};

TEST_P(NarrowOptimizerTest, UpdatesTheMasterAndRoundsTheCopy) {
  const auto [opt, dtype, momentum] = GetParam();
  const auto wide_model = make_tiny_model(5), narrow_model = make_tiny_model(5);
  FlatParameters wide(*wide_model), narrow(*narrow_model, Device::cpu(), dtype);
  OptimizerConfig config;
  config.opt = opt;
  config.momentum = momentum;
  config.norm_weight_decay = 0;
  const auto expected = make_optimizer(config, wide), optimizer = make_optimizer(config, narrow);
  for (int step = 1; step <= 5; ++step) {
    const auto to = wide.gradient_views(), from = narrow.gradient_views();
    for (size_t i = 0; i < to.size(); ++i) {
      const Shape& shape = to[i].tensor.shape();
      const auto values = uniform<float>(shape.numel(), static_cast<uint64_t>(100 * step) + i);
      from[i].tensor.copy_from(cast(Tensor::from_vector(shape, values), from[i].tensor.dtype()));
      to[i].tensor.copy_from(cast(from[i].tensor, DType::f32));
    }
    expected->step(0.01 * step, 0.125);
    optimizer->step(0.01 * step, 0.125);
  }
  const double tol = tolerance<float>(4, OpClass::transcendental);
  const auto check = [&](const Tensor& got, const Tensor& want, const std::string& what) {
    const auto a = narrow.views(got), b = wide.views(want);
    for (size_t i = 0; i < a.size(); ++i) {
      ExpectClose(a[i].tensor.to_vector<float>(), b[i].tensor.to_vector<float>(), tol, what + " " + a[i].name);
    }
  };
  check(narrow.master(), wide.master(), "master");
  for (size_t i = 0; i < optimizer->slots().size(); ++i) {
    check(optimizer->slots()[i].buffer, expected->slots()[i].buffer, optimizer->slots()[i].name);
  }
  const ParameterRegion& region = narrow.regions().front();
  const Tensor master = narrow.master().narrow(0, region.offset, region.count);
  EXPECT_EQ(floats_of(region.compute_copy), floats_of(cast(master, dtype)));
  EXPECT_NE(floats_of(region.compute_copy), floats_of(master));
  // What the model computes with is that copy, and batch norm's parameters are the master.
  for (const FlatRange& range : narrow.ranges()) {
    EXPECT_EQ(range.parameter.tensor.dtype(), range.parameter.kind == ParameterKind::norm ? DType::f32 : dtype);
  }
}

std::vector<NarrowCase> narrow_cases() {
  std::vector<NarrowCase> cases;
  for (const std::string& opt : optimizer_names()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      cases.push_back({opt, dtype, 0.9});
      if (!opt.starts_with("adam")) cases.push_back({opt, dtype, 0});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, NarrowOptimizerTest, ::testing::ValuesIn(narrow_cases()),
                         [](const auto& instance) {
                           return instance.param.opt + "_" + name_of(instance.param.dtype) +
                                  (instance.param.momentum == 0 ? "_plain" : "");
                         });

}  // namespace
}  // namespace engine::testing
