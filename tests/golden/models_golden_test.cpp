// Whole models against PyTorch: logits, loss, every parameter's gradient and the running statistics of one step; and
// ten steps of each optimizer.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/autograd/backward.h"
#include "engine/autograd/node.h"
#include "engine/ops/softmax_cross_entropy.h"
#include "engine/optim/optimizer.h"
#include "engine/train/train_step.h"
#include "tests/support/golden_tensor.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using Json = nlohmann::json;

/// Float against PyTorch's truth: so many times the deviation that PyTorch's own float32 shows.
constexpr double kAllowedOverPyTorch = 8;
/// Over ten steps, in which a difference of one step moves the next.
constexpr double kAllowedOverSteps = 20;

struct GoldenBatch {
  Tensor images, labels;
};

GoldenBatch batch_of(const Json& model, const std::string& name, int64_t number, DType dtype) {
  const std::string suffix = std::to_string(number);
  const auto classes = model.at("classes").get<int64_t>();
  const auto shape = model.at("input_shape").get<Extents>();
  return {tensor_of(formula_values(name + "/input/" + suffix, shape), dtype),
          Tensor::from_vector(Shape{shape[0]}, formula_labels(name + "/labels/" + suffix, shape[0], classes))};
}

void expect_fingerprint(const NamedTensor& named, const Tensor& values, const GoldenTensor& rows, int64_t row,
                        double tol) {
  const GoldenTensor got = golden_of(named, values);
  const double distance =
      fingerprint_distance(fingerprint_of(got.values, named.name), fingerprint_at(rows, row), got.numel());
  EXPECT_LE(distance, tol) << named.name;
}

std::vector<NamedTensor> statistics_of(const Module& model) {
  std::vector<NamedTensor> found = model.buffers();
  std::erase_if(found, [](const NamedTensor& buffer) { return !is_floating(buffer.tensor.dtype()); });
  return found;
}

void check_one_step(const std::string& name, DType dtype) {
  const GoldenFile file("models/" + name);
  const Json& json = file.json();
  const Json& deviation = json.at("float32_deviation");
  const auto model = formula_model(name, json.at("classes"), dtype, &file);
  const GoldenBatch batch = batch_of(json, name, 0, dtype);
  const auto limit = [&](const char* what) {
    // In double what remains is the order of sums over a whole network.
    return dtype == DType::f64 ? tolerance<double>(json.at("parameters").get<int64_t>(), OpClass::winograd)
                               : kAllowedOverPyTorch * deviation.at(what).get<double>();
  };
  {
    const NoGradGuard no_grad;
    model->set_training(false);
    ExpectClose(golden_of((*model)(batch.images)).values, file.at("eval_logits").values, limit("eval_logits"), name);
    model->set_training(true);
  }
  const Tensor logits = (*model)(batch.images);
  ExpectClose(golden_of(logits).values, file.at("logits").values, limit("logits"), name + " logits");
  const Tensor loss = softmax_cross_entropy(logits, batch.labels, {.label_smoothing = json.at("label_smoothing")});
  ExpectClose(std::vector<double>{loss.item()}, file.at("loss").values, limit("loss"), name + " loss");
  backward(loss);
  const std::vector<NamedTensor> parameters = model->parameters();
  ASSERT_EQ(parameters.size(), json.at("gradients").size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_EQ(parameters[i].name, json["gradients"][i].at("name"));
    expect_fingerprint(parameters[i], grad_of(parameters[i].tensor), file.at("gradients"), static_cast<int64_t>(i),
                       limit("gradients_distance"));
  }
  if (!file.has("statistics")) return;
  const std::vector<NamedTensor> statistics = statistics_of(*model);
  ASSERT_EQ(statistics.size(), json.at("statistics").size());
  for (size_t i = 0; i < statistics.size(); ++i) {
    expect_fingerprint(statistics[i], statistics[i].tensor, file.at("statistics"), static_cast<int64_t>(i),
                       limit("statistics_distance"));
  }
}

TEST(GoldenModels, SimpleCnnFloat) { check_one_step("simple_cnn", DType::f32); }
TEST(GoldenModels, SimpleCnnDouble) { check_one_step("simple_cnn", DType::f64); }
TEST(GoldenModels, ResNet18Float) { check_one_step("resnet18", DType::f32); }
TEST(GoldenModels, ResNet18Double) { check_one_step("resnet18", DType::f64); }
TEST(GoldenModels, ResNet50Float) { check_one_step("resnet50", DType::f32); }

OptimizerConfig optimizer_of(const Json& run) {
  const Json& settings = run.at("settings");
  OptimizerConfig config;
  config.opt = run.at("optimizer");
  config.lr = settings.at("lr");
  config.momentum = settings.value("momentum", 0.0);
  config.nesterov = settings.value("nesterov", false);
  config.weight_decay = settings.value("weight_decay", 0.0);
  return config;
}

/// From this step on a ReLU may have changed side, after which trajectories part as far as PyTorch's own do.
constexpr int64_t kSteadySteps = 3;

/// The largest deviation of PyTorch's float32 in any run of a file.
double worst_of_all(const Json& runs, const char* what) {
  double worst = 0;
  for (const Json& run : runs) {
    const auto values = run.at(what).get<std::vector<double>>();
    worst = std::max(worst, *std::max_element(values.begin(), values.end()));
  }
  return worst;
}

/// Ten steps through the product's own training step.
void check_run(const std::string& name, const GoldenFile& file, const Json& run) {
  SCOPED_TRACE(run.at("name"));
  const Json& json = file.json();
  const auto model = formula_model(name, json.at("classes"), DType::f32);
  FlatParameters flat(*model);
  const auto optimizer = make_optimizer(optimizer_of(run), flat);
  TrainStep step({model.get(), &flat, optimizer.get(), nullptr}, {});
  double loss_limit = 0;
  for (int64_t t = 0; t < json.at("steps").get<int64_t>(); ++t) {
    const GoldenBatch golden = batch_of(json, name, t, DType::f32);
    Batch batch{golden.images, golden.labels, std::vector<int64_t>(static_cast<size_t>(golden.labels.numel())),
                golden.labels.numel(), true};
    step.add(batch);
    const StepOutcome outcome = step.finish(run.at("settings").at("lr"));
    // Differences grow from step to step; PyTorch's own may be small at one step by luck.
    loss_limit = std::max(loss_limit, run["float32_loss_deviation"][static_cast<size_t>(t)].get<double>());
    const double steady = std::max(kAllowedOverSteps * loss_limit, tolerance<float>(1000, OpClass::reduction));
    const double parted = worst_of_all(json.at("runs"), "float32_loss_deviation");
    const double limit = t < kSteadySteps ? steady : std::max(steady, parted);
    ExpectClose(std::vector<double>{outcome.loss}, std::vector<double>{run["losses"][static_cast<size_t>(t)]}, limit,
                "loss of step " + std::to_string(t));
  }
  const auto distances = run.at("float32_changes_distance").get<std::vector<double>>();
  const double limit = std::max(kAllowedOverSteps * *std::max_element(distances.begin(), distances.end()),
                                worst_of_all(json.at("runs"), "float32_changes_distance"));
  int64_t row = 0;
  for (const FlatRange& range : flat.ranges()) {
    const NamedTensor& named = range.parameter;
    GoldenTensor change = golden_of(named, named.tensor);
    const GoldenTensor start = formula_state(named.name, torch_shape(named));
    for (size_t i = 0; i < change.values.size(); ++i) change.values[i] -= start.values[i];
    const double distance = fingerprint_distance(
        fingerprint_of(change.values, named.name),
        fingerprint_at(file.at(run["name"].get<std::string>() + "/changes"), row++), change.numel());
    EXPECT_LE(distance, limit) << named.name;
  }
}

/// Runs whose float32 trajectory PyTorch itself does not follow (a ReLU changes side) show nothing and are left out.
bool is_stable(const Json& run) {
  const auto distances = run.at("float32_changes_distance").get<std::vector<double>>();
  return *std::max_element(distances.begin(), distances.end()) < 0.01;
}

void check_trajectories(const std::string& name, size_t at_least) {
  const GoldenFile file("trajectories/" + name);
  size_t checked = 0;
  for (const Json& run : file.json().at("runs")) {
    if (!is_stable(run)) {
      std::cout << "[ SKIPPED  ] " << name << " " << run.at("name")
                << ": PyTorch's float32 leaves this trajectory too\n";
      continue;
    }
    check_run(name, file, run);
    ++checked;
  }
  EXPECT_GE(checked, at_least);
}

TEST(GoldenTrajectories, SimpleCnn) { check_trajectories("simple_cnn", 6); }
TEST(GoldenTrajectories, ResNet18) { check_trajectories("resnet18", 3); }

}  // namespace
}  // namespace engine::testing
