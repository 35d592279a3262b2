#include "engine/io/state_dict.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "tests/support/temp_dir.h"

namespace engine {
namespace {

using testing::TempDir;

std::vector<float> counting(int64_t count, float first = 0) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

Tensor tensor_of(const Shape& shape, float first = 0) {
  return Tensor::from_vector<float>(shape, counting(shape.numel(), first));
}

template <typename T>
std::vector<T> stored(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<T> out(info->bytes() / sizeof(T));
  file.read(*info, std::as_writable_bytes(std::span(out)));
  return out;
}

SafetensorsFile save(const TempDir& folder, std::span<const FileTensor> tensors, const std::string& prefix = "") {
  write_safetensors(folder.file("f"), file_entries(tensors, prefix));
  return SafetensorsFile::open(folder.file("f"));
}

/// Fresh tensors of the same names, shapes, types and layouts, filled with `value`.
std::vector<FileTensor> blank_like(std::span<const FileTensor> tensors, double value = -1) {
  std::vector<FileTensor> blank(tensors.begin(), tensors.end());
  for (FileTensor& entry : blank) {
    entry.tensor = entry.tensor.clone();
    entry.tensor.fill(value);
  }
  return blank;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

template <typename T>
Tensor tensor_from(const Shape& shape, const std::vector<T>& values) {
  const Tensor tensor = Tensor::empty(shape, dtype_of<T>);
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> logged(const std::function<void()>& action) {
  std::vector<std::string> lines;
  set_log_capture([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  action();
  set_log_capture({});
  return lines;
}

bool any_holds(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& l) { return l.find(text) != std::string::npos; });
}

TEST(StateDict, FilesHaveTorchvisionsLayouts) {
  const TempDir folder;
  // Memory [k = 2, r = 1, s = 2, c = 3] counts 0..11; the file has [k, c, r, s].
  const std::vector<FileTensor> tensors{{"conv.weight", tensor_of({2, 1, 2, 3}), FileLayout::filter},
                                        // One row, 2 pixels of 3 channels.
                                        {"fc.weight", tensor_of({1, 6}), FileLayout::flattened_linear, 3},
                                        {"fc.bias", tensor_of({1})},
                                        {"bn.num_batches_tracked", Tensor::from_vector<int64_t>(Shape{}, {7})}};
  const SafetensorsFile file = save(folder, tensors, "model.");
  EXPECT_EQ(file.find("model.conv.weight")->shape, (Shape{2, 3, 1, 2}));
  EXPECT_EQ(stored<float>(file, "model.conv.weight"), (std::vector<float>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(file.find("model.fc.weight")->shape, (Shape{1, 6}));
  EXPECT_EQ(stored<float>(file, "model.fc.weight"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(stored<int64_t>(file, "model.bn.num_batches_tracked"), std::vector<int64_t>{7});

  const std::vector<FileTensor> back = blank_like(tensors);
  LoadOptions options;
  options.prefix = "model.";
  const LoadResult result = load_tensors(file, back, options);
  EXPECT_EQ(result.loaded, 4);
  EXPECT_EQ(result.total, 4);
  for (size_t i = 0; i < back.size(); ++i) EXPECT_TRUE(same(back[i].tensor, tensors[i].tensor)) << back[i].name;
}

template <typename T>
class StateDictTypes : public ::testing::Test {};
using Types = ::testing::Types<double, float, kernels::Half, kernels::BFloat16>;
TYPED_TEST_SUITE(StateDictTypes, Types);

TYPED_TEST(StateDictTypes, AreConvertedToFp32) {
  const TempDir folder;
  std::vector<TypeParam> values;
  for (int i = 0; i < 12; ++i) values.push_back(TypeParam(static_cast<float>(i) / 4));
  const std::vector<FileTensor> stored_tensors{
      {"conv.weight", tensor_from<TypeParam>({2, 1, 2, 3}, values), FileLayout::filter},
      {"bn.weight", tensor_from<TypeParam>({12}, values)},
      {"bn.num_batches_tracked", Tensor::from_vector<int32_t>(Shape{}, {9})}};
  const std::vector<FileTensor> wanted{{"conv.weight", Tensor::zeros({2, 1, 2, 3}), FileLayout::filter},
                                       {"bn.weight", Tensor::zeros({12})},
                                       {"bn.num_batches_tracked", Tensor::zeros(Shape{}, DType::i64)}};
  load_tensors(save(folder, stored_tensors), wanted);
  std::vector<float> expected;
  for (int i = 0; i < 12; ++i) expected.push_back(static_cast<float>(i) / 4);
  EXPECT_EQ(wanted[0].tensor.template to_vector<float>(), expected);
  EXPECT_EQ(wanted[1].tensor.template to_vector<float>(), expected);
  EXPECT_EQ(wanted[2].tensor.template to_vector<int64_t>(), std::vector<int64_t>{9});
}

TEST(StateDict, IntegersAreNoWeights) {
  const TempDir folder;
  const std::vector<FileTensor> integers{{"w", Tensor::zeros({2}, DType::i64)}};
  const std::vector<FileTensor> floats{{"w", Tensor::zeros({2})}};
  EXPECT_NE(refusal([&] { load_tensors(save(folder, integers), floats); }).find("w: i64 [2] for f32 [2]"),
            std::string::npos);
}

TEST(StateDict, OptionalTensorsMayBeMissing) {
  const TempDir folder;
  const std::vector<FileTensor> stored_tensors{{"bn.weight", tensor_of({3})}};
  std::vector<FileTensor> wanted = blank_like(stored_tensors);
  wanted.push_back({"bn.num_batches_tracked", Tensor::from_vector<int64_t>(Shape{}, {5})});
  const SafetensorsFile file = save(folder, stored_tensors);
  EXPECT_NE(refusal([&] { load_tensors(file, wanted); }).find("1 missing (bn.num_batches_tracked)"), std::string::npos);
  wanted.back().optional = true;
  const LoadResult result = load_tensors(file, wanted);
  EXPECT_EQ(result.loaded, 1);
  EXPECT_EQ(result.total, 1);
  EXPECT_EQ(wanted.back().tensor.to_vector<int64_t>(), std::vector<int64_t>{5});
}

TEST(StateDict, ModulePrefixIsDroppedWithANote) {
  const TempDir folder;
  const std::vector<FileTensor> stored_tensors{{"module.a", tensor_of({2})}, {"module.b", tensor_of({3})}};
  std::vector<FileTensor> wanted{{"a", Tensor::zeros({2})}, {"b", Tensor::zeros({3})}};
  const SafetensorsFile file = save(folder, stored_tensors);
  const auto lines = logged([&] { load_tensors(file, wanted); });
  EXPECT_TRUE(any_holds(lines, "dropped the prefix \"module.\" of 2 names"));
  EXPECT_TRUE(same(wanted[1].tensor, stored_tensors[1].tensor));

  const std::vector<FileTensor> both{{"module.a", tensor_of({2})}, {"a", tensor_of({2})}};
  EXPECT_NE(refusal([&] { load_tensors(save(folder, both), wanted); }).find("tensor a"), std::string::npos);
}

/// Names of torchvision's resnet50 state dict, 320 of them, with small shapes.
std::vector<FileTensor> resnet50_list(int64_t classes) {
  std::vector<FileTensor> list;
  const auto conv = [&](const std::string& name) {
    list.push_back({name + ".weight", tensor_of({2, 3, 1, 2}), FileLayout::filter});
  };
  const auto norm = [&](const std::string& name) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"})
      list.push_back({name + part, tensor_of({2}, 3)});
    list.push_back(
        {name + ".num_batches_tracked", Tensor::from_vector<int64_t>(Shape{}, {1}), FileLayout::plain, 0, true});
  };
  conv("conv1");
  norm("bn1");
  const std::vector<int> blocks{3, 4, 6, 3};
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string base = fmt::format("layer{}.{}", stage + 1, block);
      for (int i = 1; i <= 3; ++i) {
        conv(fmt::format("{}.conv{}", base, i));
        norm(fmt::format("{}.bn{}", base, i));
      }
      if (block == 0) {
        conv(base + ".downsample.0");
        norm(base + ".downsample.1");
      }
    }
  }
  list.push_back({"fc.weight", tensor_of({classes, 4}, 5)});
  list.push_back({"fc.bias", tensor_of({classes}, 5)});
  return list;
}

std::vector<FileTensor> without(std::vector<FileTensor> list, const std::string& name) {
  EXPECT_EQ(std::erase_if(list, [&](const FileTensor& entry) { return entry.name == name; }), 1U);
  return list;
}

TEST(Cases, H_CKPT_03_RenamedRemovedAndTransposed) {
  const TempDir folder;
  const std::vector<FileTensor> good = resnet50_list(10);
  ASSERT_EQ(good.size(), 320U);
  std::vector<FileTensor> bad = without(good, "layer3.2.bn2.bias");
  for (FileTensor& entry : bad) {
    if (entry.name == "layer1.0.conv1.weight") entry.name = "layer1.0.convolution1.weight";
    if (entry.name == "fc.weight") entry.tensor = tensor_of({4, 10});
  }
  const std::vector<FileTensor> model = blank_like(good);
  const SafetensorsFile file = save(folder, bad);
  const std::string got = refusal([&] { load_tensors(file, model); });
  for (const char* wanted :
       {"2 missing (layer1.0.conv1.weight, layer3.2.bn2.bias)", "1 unexpected (layer1.0.convolution1.weight)",
        "1 ill-shaped (fc.weight: f32 [4, 10] for f32 [10, 4])", "expected the model's 320 tensors"}) {
    EXPECT_NE(got.find(wanted), std::string::npos) << got;
  }
  EXPECT_NE(got.find(folder.file("f")), std::string::npos) << got;
  EXPECT_TRUE(same(model.front().tensor, blank_like(good).front().tensor)) << "a refused file leaves the model alone";
}

TEST(Cases, H_CKPT_03_ListsTenAndTheCounts) {
  const TempDir folder;
  const std::vector<FileTensor> simple{{"conv1.weight", tensor_of({2, 3, 3, 1}), FileLayout::filter},
                                       {"fc1.bias", tensor_of({2})}};
  const SafetensorsFile file = save(folder, simple);
  const std::string got = refusal([&] { load_tensors(file, resnet50_list(10)); });
  EXPECT_NE(got.find("266 missing (bn1.weight, "), std::string::npos) << got;
  EXPECT_NE(got.find(", ...)"), std::string::npos) << got;
  EXPECT_EQ(got.find('\n'), std::string::npos);
  EXPECT_LT(got.size(), 1000U);
}

TEST(Cases, H_CKPT_03_ResetHead) {
  const TempDir folder;
  const std::vector<FileTensor> file_list = resnet50_list(1000);
  const SafetensorsFile file = save(folder, file_list);
  const std::vector<FileTensor> model = blank_like(resnet50_list(10));
  EXPECT_NE(refusal([&] {
              load_tensors(file, model);
            }).find("2 ill-shaped (fc.weight: f32 [1000, 4] for f32 [10, 4], fc.bias"),
            std::string::npos);
  LoadOptions options;
  options.head = "fc";
  LoadResult result;
  const auto lines = logged([&] { result = load_tensors(file, model, options); });
  EXPECT_TRUE(any_holds(lines, "loaded 318 of 320 tensors"));
  EXPECT_EQ(result.reset, (std::vector<std::string>{"fc.weight", "fc.bias"}));
  EXPECT_TRUE(same(model.front().tensor, file_list.front().tensor));
  EXPECT_TRUE(same(model.back().tensor, blank_like(resnet50_list(10)).back().tensor));
  // The option is for the head alone, and a head that fits is loaded.
  EXPECT_NE(refusal([&] {
              load_tensors(save(folder, without(file_list, "bn1.bias")), model, options);
            }).find("1 missing (bn1.bias)"),
            std::string::npos);
  EXPECT_EQ(load_tensors(save(folder, resnet50_list(10)), model, options).loaded, 320);
}

TEST(Cases, H_CKPT_03_ABiasThatFitsIsResetWithItsWeight) {
  const TempDir folder;
  std::vector<FileTensor> narrow = resnet50_list(10);
  narrow[narrow.size() - 2].tensor = tensor_of({10, 3});
  const std::vector<FileTensor> model = blank_like(resnet50_list(10));
  LoadOptions options;
  options.head = "fc";
  EXPECT_EQ(load_tensors(save(folder, narrow), model, options).loaded, 318);
  EXPECT_TRUE(same(model.back().tensor, blank_like(resnet50_list(10)).back().tensor));
}

TEST(Cases, H_CKPT_03_NothingLoadedIsAlwaysAnError) {
  const TempDir folder;
  const std::vector<FileTensor> other{{"other", tensor_of({2, 2})}};
  const std::vector<FileTensor> model{{"conv1.weight", Tensor::zeros({2, 3, 3, 1}), FileLayout::filter}};
  const std::string got = refusal([&] { load_tensors(save(folder, other), model); });
  EXPECT_NE(got.find("none that fits: 1 missing (conv1.weight), 1 unexpected (other)"), std::string::npos) << got;
  const std::vector<FileTensor> head{{"fc.weight", Tensor::zeros({2, 2})}};
  LoadOptions options;
  options.head = "fc";
  options.prefix = "model.";
  EXPECT_NE(refusal([&] { load_tensors(save(folder, other), head, options); }).find("fc.weight"), std::string::npos);
  EXPECT_NE(refusal([&] { load_tensors(save(folder, other), {}, options); }).find("nothing to load"),
            std::string::npos);
}

}  // namespace
}  // namespace engine
