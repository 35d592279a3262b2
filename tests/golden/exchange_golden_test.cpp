// Weight files as PyTorch writes them, read into models.

#include <gtest/gtest.h>

#include "engine/io/state_dict.h"
#include "models/registry.h"
#include "tests/support/golden_tensor.h"
#include "tests/support/log_capture.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

std::vector<NamedTensor> tensors_of(const Module& model) {
  std::vector<NamedTensor> all = model.parameters();
  const std::vector<NamedTensor> buffers = model.buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

/// A file like safetensors.torch.save_file(model.state_dict()) of a model whose tensors are those of the formula.
GoldenTensors torch_state(const Module& model, const std::string& prefix) {
  GoldenTensors state;
  for (const NamedTensor& named : tensors_of(model)) {
    state[prefix + named.name] = formula_state(named.name, torch_shape(named));
  }
  return state;
}

void expect_formula(const Module& model) {
  for (const NamedTensor& named : tensors_of(model)) {
    if (named.tensor.dtype() != DType::f32) continue;
    EXPECT_EQ(golden_of(named, named.tensor).values, formula_state(named.name, torch_shape(named)).values)
        << named.name;
  }
}

TEST(GoldenExchange, PyTorchsSimpleCnnFile) {
  const auto model = models::find_model("simplecnn").make({.num_classes = 10});
  const SafetensorsFile file = SafetensorsFile::open(golden_path("torch_files/simple_cnn.safetensors"));
  EXPECT_EQ(load_tensors(file, file_tensors(*model)).loaded, 4);
  expect_formula(*model);
}

TEST(GoldenExchange, TorchvisionsResNet18File) {
  const auto model = models::find_model("resnet18").make({.num_classes = 10, .seed = 3});
  const TempDir folder;
  const auto path = folder.path() / "resnet18.safetensors";
  write_torch_file(path, torch_state(*model, ""));
  EXPECT_EQ(load_tensors(SafetensorsFile::open(path), file_tensors(*model)).loaded, 122);
  expect_formula(*model);
}

TEST(Cases, H_CKPT_02_NamesThatBeginWithModule) {
  const auto model = models::find_model("resnet18").make({.num_classes = 10, .seed = 3});
  const TempDir folder;
  const auto path = folder.path() / "ddp.safetensors";
  write_torch_file(path, torch_state(*model, "module."));
  const LogCapture log;
  EXPECT_EQ(load_tensors(SafetensorsFile::open(path), file_tensors(*model)).loaded, 122);
  expect_formula(*model);
  EXPECT_EQ(log.count(LogLevel::info, "module."), 1);
}

}  // namespace
}  // namespace engine::testing
