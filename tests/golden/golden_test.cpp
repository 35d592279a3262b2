// The golden files' reader, writer and formula against files that PyTorch wrote.

#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/golden_file.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

const GoldenTensors& simple_cnn() {
  static const GoldenTensors tensors = read_safetensors_file(golden_path("torch_files/simple_cnn.safetensors"));
  return tensors;
}

TEST(Golden, FormulaGivesPyTorchsBits) {
  ASSERT_EQ(simple_cnn().size(), 4U);
  for (const auto& [name, tensor] : simple_cnn()) {
    const GoldenTensor made = formula_state(name, tensor.shape);
    EXPECT_EQ(made.dtype, tensor.dtype) << name;
    EXPECT_EQ(made.values, tensor.values) << name;
  }
}

TEST(Golden, WrittenFileEqualsPyTorchsByteForByte) {
  const GoldenFile described("torch_files/small");
  GoldenTensors tensors;
  for (const auto& [name, entry] : described.json().at("tensors").items()) {
    tensors[name] = formula_state(name, entry.at("shape").get<Extents>());
  }
  tensors.at("bn1.num_batches_tracked").values = {1234567890123.0};
  const TempDir folder;
  write_torch_file(folder.path() / "small.safetensors", tensors);
  EXPECT_EQ(detail::read_bytes(folder.path() / "small.safetensors"),
            detail::read_bytes(golden_path("torch_files/small.safetensors")));
}

TEST(Golden, ReadsEveryTypeThatIsStored) {
  const GoldenFile cast("ops/cast");
  for (const std::string type : {"f16", "bf16"}) {
    ExpectClose(cast.at(type).values, cast.at(type + "_back").values, tolerance<double>(1, OpClass::elementwise), type);
  }
  const GoldenFile loss("ops/cross_entropy");
  EXPECT_EQ(loss.at("known/target").dtype, "I64");
  EXPECT_EQ(loss.at("known/x").as<float>(), (std::vector<float>{2, 0, -1}));
}

TEST(Golden, LayoutsGoBothWays) {
  const GoldenTensor filter = formula_values("filter", {2, 3, 4, 5});
  const GoldenTensor last = to_channels_last(filter);
  EXPECT_EQ(last.shape, (Extents{2, 4, 5, 3}));
  EXPECT_EQ(last.values[((1 * 4 + 2) * 5 + 3) * 3 + 1], filter.values[((1 * 3 + 1) * 4 + 2) * 5 + 3]);
  EXPECT_EQ(to_channels_first(last).values, filter.values);
  EXPECT_EQ(to_channels_first(last).shape, filter.shape);
  const GoldenTensor weight = formula_values("weight", {2, 60});
  const GoldenTensor columns = columns_to_channels_last(weight, 3, 4, 5);
  EXPECT_EQ(columns.values[60 + (2 * 5 + 3) * 3 + 1], weight.values[60 + (1 * 4 + 2) * 5 + 3]);
  EXPECT_EQ(columns_to_channels_first(columns, 3, 4, 5).values, weight.values);
}

TEST(Golden, FingerprintsEqualPyTorchs) {
  const GoldenFile model("models/simple_cnn");
  const auto& entries = model.json().at("gradients");
  for (size_t row = 0; row < entries.size(); ++row) {
    const auto name = entries[row].at("name").get<std::string>();
    const GoldenTensor& gradient = model.at("grad/" + name);
    EXPECT_EQ(gradient.shape, entries[row].at("shape").get<Extents>());
    const double distance =
        fingerprint_distance(fingerprint_of(gradient.values, name),
                             fingerprint_at(model.at("gradients"), static_cast<int64_t>(row)), gradient.numel());
    EXPECT_LE(distance, tolerance<float>(1, OpClass::elementwise)) << name;
  }
}

TEST(Golden, FingerprintSeesWhatIsWrong) {
  const GoldenTensor tensor = formula_values("some.weight", {64, 65});
  const auto distance = [&](const std::vector<double>& values) {
    return fingerprint_distance(fingerprint_of(values, "some.weight"), fingerprint_of(tensor.values, "some.weight"),
                                tensor.numel());
  };
  EXPECT_EQ(distance(tensor.values), 0.0);
  std::vector<double> swapped = tensor.values, nan = tensor.values;
  std::swap(swapped[100], swapped[2000]);
  EXPECT_GT(distance(swapped), tolerance<float>(1, OpClass::elementwise));
  nan[77] = std::nan("");
  EXPECT_EQ(distance(nan), std::numeric_limits<double>::infinity());
  const Fingerprint zero{};
  EXPECT_EQ(fingerprint_distance(zero, zero, 5), 0.0);
  EXPECT_EQ(fingerprint_distance(fingerprint_of(tensor.values, "some.weight"), zero, 5),
            std::numeric_limits<double>::infinity());
}

TEST(Golden, MissingThingsAreNamed) {
  EXPECT_THROW(GoldenFile("ops/no_such_op"), std::runtime_error);
  EXPECT_THROW(GoldenFile("ops/conv2d").at("no_such_case/x"), std::runtime_error);
}

}  // namespace
}  // namespace engine::testing
