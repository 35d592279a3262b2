// Every registered optimizer against a plain double recipe, one element at a time.

#include "engine/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/registry.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

constexpr int kSteps = 10;

OptimizerConfig config_of(const std::string& opt) {
  OptimizerConfig config;
  config.opt = opt;
  return config;
}

/// One tensor's training in double, as the papers and torch.optim have it.
struct Reference {
  std::vector<double> w, m, v;
  double decay = 0;
  bool adapted = true;  // by LARS's ratio
};

using Recipe = void (*)(Reference& r, const std::vector<double>& grad, const OptimizerConfig& config, double lr,
                        int step);

double norm_of(const std::vector<double>& values) { return std::sqrt(dot(values, values)); }

void sgd(Reference& r, const std::vector<double>& grad, const OptimizerConfig& config, double lr, int step) {
  double ratio = 1;
  if (config.opt == "lars" && r.adapted && norm_of(r.w) > 0 && norm_of(grad) > 0) {
    ratio = 0.001 * norm_of(r.w) / (norm_of(grad) + r.decay * norm_of(r.w));
  }
  for (size_t i = 0; i < r.w.size(); ++i) {
    const double g = ratio * (grad[i] + r.decay * r.w[i]);
    r.m[i] = step == 1 ? g : config.momentum * r.m[i] + g;
    r.w[i] -= lr * (config.nesterov ? g + config.momentum * r.m[i] : r.m[i]);
  }
}

void adam(Reference& r, const std::vector<double>& grad, const OptimizerConfig& config, double lr, int step) {
  for (size_t i = 0; i < r.w.size(); ++i) {
    double g = grad[i];
    if (config.opt == "adamw") {
      r.w[i] -= lr * r.decay * r.w[i];
    } else {
      g += r.decay * r.w[i];
    }
    r.m[i] = 0.9 * r.m[i] + 0.1 * g;
    r.v[i] = 0.999 * r.v[i] + 0.001 * g * g;
    const double m_hat = r.m[i] / (1 - std::pow(0.9, step)), v_hat = r.v[i] / (1 - std::pow(0.999, step));
    r.w[i] -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
  }
}

const std::map<std::string, Recipe>& recipes() {
  static const std::map<std::string, Recipe> table = {{"sgd", sgd}, {"adam", adam}, {"adamw", adam}, {"lars", sgd}};
  return table;
}

/// What --norm-weight-decay and --bias-weight-decay mean.
double decay_of(const NamedTensor& parameter, const OptimizerConfig& config) {
  const double usual = config.opt == "lars" && parameter.tensor.rank() == 1 ? 0 : config.weight_decay;
  if (parameter.kind == ParameterKind::norm) return config.norm_weight_decay.value_or(usual);
  if (parameter.kind == ParameterKind::bias) return config.bias_weight_decay.value_or(usual);
  return config.weight_decay;
}

std::vector<double> doubles_of(const Tensor& tensor) { return converted<double>(tensor.to_vector<float>()); }

/// Gradients of a step, the same for both sides.
void set_gradients(const FlatParameters& flat, int step) {
  uint64_t key = static_cast<uint64_t>(100 * step);
  for (const NamedTensor& gradient : flat.views(flat.gradients())) {
    gradient.tensor.copy_from(
        Tensor::from_vector(gradient.tensor.shape(), uniform<float>(gradient.tensor.numel(), ++key, 0.1, 1)));
  }
}

void expect_recipe(const OptimizerConfig& config, double grad_scale) {
  SCOPED_TRACE(fmt::format("{} momentum {} nesterov {} decay {} norm {} bias {} scale {}", config.opt, config.momentum,
                           config.nesterov, config.weight_decay, config.norm_weight_decay.value_or(-1),
                           config.bias_weight_decay.value_or(-1), grad_scale));
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  const auto optimizer = make_optimizer(config, flat);
  std::vector<Reference> references;
  for (const FlatRange& range : flat.ranges()) {
    Reference r;
    r.w = doubles_of(range.parameter.tensor);
    r.m.resize(r.w.size());
    r.v.resize(r.w.size());
    r.decay = decay_of(range.parameter, config);
    r.adapted = range.parameter.tensor.rank() > 1;
    references.push_back(r);
  }
  for (int step = 1; step <= kSteps; ++step) {
    const double lr = 0.01 * step;
    set_gradients(flat, step);
    optimizer->step(lr, grad_scale);
    EXPECT_EQ(optimizer->applied_steps(), step);
    for (size_t i = 0; i < references.size(); ++i) {
      std::vector<double> grad = doubles_of(flat.views(flat.gradients())[i].tensor);
      for (double& value : grad) value *= grad_scale;
      recipes().at(config.opt)(references[i], grad, config, lr, step);
    }
  }
  const double tol = tolerance<float>(kSteps * kSteps, OpClass::transcendental);
  for (size_t i = 0; i < references.size(); ++i) {
    ExpectClose(flat.ranges()[i].parameter.tensor.to_vector<float>(), references[i].w, tol,
                flat.ranges()[i].parameter.name);
    for (const OptimizerSlot& slot : optimizer->slots()) {
      const auto& expected = slot.name == "exp_avg_sq" ? references[i].v : references[i].m;
      ExpectClose(flat.views(slot.buffer)[i].tensor.to_vector<float>(), expected, tol, slot.name);
    }
  }
}

TEST(Optimizers, EachFollowsItsRecipe) {
  for (const std::string& opt : optimizer_names()) {
    ASSERT_TRUE(recipes().contains(opt)) << "a new optimizer needs its recipe in this test";
    OptimizerConfig config = config_of(opt);
    config.weight_decay = 0;
    expect_recipe(config, 1);
    config.weight_decay = 0.1;
    expect_recipe(config, 1);
    expect_recipe(config, 0.25);
    config.norm_weight_decay = 0;
    expect_recipe(config, 1);
    config.bias_weight_decay = 0.02;
    expect_recipe(config, 1);
    config.momentum = 0;
    expect_recipe(config, 1);
    config.momentum = 0.8;
    config.nesterov = true;
    if (opt == "sgd" || opt == "lars") expect_recipe(config, 1);
  }
}

TEST(Optimizers, GapsStayZero) {
  for (const std::string& opt : optimizer_names()) {
    const auto model = make_tiny_model();
    FlatParameters flat(*model);
    const auto optimizer = make_optimizer(config_of(opt), flat);
    for (int step = 1; step <= 3; ++step) {
      set_gradients(flat, step);
      optimizer->step(0.1, 1);
    }
    auto gaps = [&](const Tensor& buffer) {
      std::vector<float> values = buffer.to_vector<float>();
      for (const FlatRange& range : flat.ranges()) std::fill_n(values.begin() + range.offset, range.count, 0.0F);
      return values;
    };
    EXPECT_EQ(gaps(flat.master()), std::vector<float>(static_cast<size_t>(flat.size()))) << opt;
    for (const OptimizerSlot& slot : optimizer->slots()) {
      EXPECT_EQ(gaps(slot.buffer), std::vector<float>(static_cast<size_t>(flat.size()))) << opt << " " << slot.name;
    }
  }
}

TEST(Optimizers, StateHasItsNamesAndIsCounted) {
  const std::map<std::string, std::vector<std::string>> expected = {{"sgd", {"momentum"}},
                                                                    {"lars", {"momentum"}},
                                                                    {"adam", {"exp_avg", "exp_avg_sq"}},
                                                                    {"adamw", {"exp_avg", "exp_avg_sq"}}};
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  for (const std::string& opt : optimizer_names()) {
    const auto live = [] { return memory_stats().live[static_cast<size_t>(MemoryCategory::optimizer)]; };
    const int64_t before = live();
    const auto optimizer = make_optimizer(config_of(opt), flat);
    std::vector<std::string> names;
    for (const OptimizerSlot& slot : optimizer->slots()) names.push_back(slot.name);
    EXPECT_EQ(names, expected.at(opt));
    EXPECT_EQ(live() - before, static_cast<int64_t>(names.size()) * flat.size() * 4) << opt;
    OptimizerConfig plain = config_of(opt);
    plain.momentum = 0;
    if (opt == "sgd" || opt == "lars") {
      EXPECT_TRUE(make_optimizer(plain, flat)->slots().empty()) << opt;
    }
  }
}

TEST(Optimizers, UnknownNamesListTheKnown) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  ExpectError<ConfigError>([&] { make_optimizer(config_of("sg\nd"), flat); },
                           {"--opt", "sg\\nd", "sgd, adam, adamw, lars"});
}

TEST(Cases, H_NUM_07_AdamsEpsilonThroughARestart) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  flat.master().fill(0);
  flat.gradients().fill(1e-8);
  OptimizerConfig config = config_of("adam");
  config.weight_decay = 0;
  auto optimizer = make_optimizer(config, flat);
  const double wanted[] = {-0.0005, -0.0010, -0.0015};
  for (int step = 0; step < 3; ++step) {
    if (step == 2) {
      // The state moves to a new optimizer, as through a checkpoint.
      auto resumed = make_optimizer(config, flat);
      for (size_t i = 0; i < 2; ++i) resumed->slots()[i].buffer.copy_from(optimizer->slots()[i].buffer);
      resumed->set_applied_steps(optimizer->applied_steps());
      optimizer = std::move(resumed);
    }
    optimizer->step(1e-3, 1);
    ExpectClose(std::vector<float>{flat.master().data<float>()[0]}, std::vector<double>{wanted[step]},
                tolerance<float>(1, OpClass::transcendental), "w");
  }
}

TEST(Cases, H_NUM_08_DecayOfNormsIsAChoice) {
  for (const bool option : {true, false}) {
    const auto model = make_tiny_model();
    FlatParameters flat(*model);
    OptimizerConfig config = config_of("sgd");
    config.weight_decay = 0.1;
    if (option) config.norm_weight_decay = 0;
    flat.gradients().fill(0);
    make_optimizer(config, flat)->step(0.1, 1);
    const Tensor scale = flat.ranges()[2].parameter.tensor;
    ExpectClose(scale.to_vector<float>(), std::vector<double>(4, option ? 1.0 : 0.99),
                tolerance<float>(1, OpClass::elementwise), "the norm's scale");
  }
}

TEST(Cases, H_NUM_08_ResNet50Decays54Of161Tensors) {
  const auto model = models::find_model("resnet50").make({.num_classes = 10});
  FlatParameters flat(*model);
  ASSERT_EQ(flat.ranges().size(), 161u);
  OptimizerConfig config = config_of("sgd");
  EXPECT_EQ(make_optimizer(config, flat)->decayed_tensors(), 161);
  config.norm_weight_decay = 0;
  EXPECT_EQ(make_optimizer(config, flat)->decayed_tensors(), 55);
  config.bias_weight_decay = 0;
  EXPECT_EQ(make_optimizer(config, flat)->decayed_tensors(), 54);
  // LARS leaves one-dimensional tensors alone unless told otherwise.
  EXPECT_EQ(make_optimizer(config_of("lars"), flat)->decayed_tensors(), 54);
}

TEST(Cases, H_NUM_08_LarsOnAZeroBiasStaysFinite) {
  const auto model = make_tiny_model();
  FlatParameters flat(*model);
  flat.master().fill(0);
  flat.gradients().fill(0);
  const auto optimizer = make_optimizer(config_of("lars"), flat);
  for (int step = 0; step < 3; ++step) optimizer->step(0.1, 1);
  EXPECT_EQ(flat.master().to_vector<float>(), std::vector<float>(static_cast<size_t>(flat.size())));
}

}  // namespace
}  // namespace engine::testing
