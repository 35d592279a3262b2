#include "kernels/conv2d/conv2d_plan_store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/support/temp_dir.h"

namespace engine::kernels {
namespace {

using engine::testing::TempDir;

const ConvPlanKey kKey{.shape = {.n = 8, .h = 14, .w = 14, .c = 64, .k = 64}, .type = ElementType::f16};

ConvChoiceFile file_in(const TempDir& folder, const ConvPlanKey& key = kKey) {
  return {folder.path(), "NVIDIA H200", "cudnn 9.19.0", key};
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(ConvChoiceFiles, GiveBackWhatWasWritten) {
  const TempDir folder;
  EXPECT_FALSE(file_in(folder).read().has_value());
  ASSERT_TRUE(file_in(folder).write("eng62_k2=4_k13=0"));
  EXPECT_EQ(file_in(folder).read(), "eng62_k2=4_k13=0");
  ASSERT_TRUE(file_in(folder).write("eng1"));
  EXPECT_EQ(file_in(folder).read(), "eng1");
}

TEST(ConvChoiceFiles, BelongToOneGpuOneVersionAndOneKey) {
  const TempDir folder;
  ASSERT_TRUE(file_in(folder).write("eng1"));
  EXPECT_FALSE(ConvChoiceFile(folder.path(), "NVIDIA H100", "cudnn 9.19.0", kKey).read().has_value());
  EXPECT_FALSE(ConvChoiceFile(folder.path(), "NVIDIA H200", "cudnn 9.20.0", kKey).read().has_value());
  ConvPlanKey other = kKey;
  other.fusion.epilogue = ConvEpilogue::statistics;
  EXPECT_FALSE(file_in(folder, other).read().has_value());
  other = kKey;
  other.shape.n = 16;
  EXPECT_FALSE(file_in(folder, other).read().has_value());
}

TEST(ConvChoiceFiles, AreIgnoredWhenDamaged) {
  const TempDir folder;
  const ConvChoiceFile file = file_in(folder);
  ASSERT_TRUE(file.write("eng62_k2=4"));
  const std::string whole = text_of(file.path());
  for (size_t length = 0; length + 1 < whole.size(); ++length) {
    write_text(file.path(), whole.substr(0, length));
    EXPECT_FALSE(file.read().has_value()) << length << " of " << whole.size() << " bytes";
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write_text(file.path(), changed);
    const auto read = file.read();
    EXPECT_TRUE(!read.has_value() || *read == "eng62_k2=4") << "byte " << i;
  }
  ASSERT_TRUE(file.write("eng3"));
  EXPECT_EQ(file.read(), "eng3");
}

TEST(ConvChoiceFiles, SayWhenTheDiskRefuses) {
  const TempDir folder;
  write_text(folder.path() / "file", "");
  EXPECT_FALSE(ConvChoiceFile(folder.path() / "file", "GPU", "cudnn 9", kKey).write("eng1"));
}

TEST(ConvChoiceFiles, LeaveNothingElseBehind) {
  const TempDir folder;
  const ConvChoiceFile file = file_in(folder);
  ASSERT_TRUE(file.write("eng1"));
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(file.path().parent_path())) {
    EXPECT_EQ(entry.path(), file.path());
    ++entries;
  }
  EXPECT_EQ(entries, 1);
}

class NoPlan final : public ConvPlan {
 public:
  int64_t workspace_bytes() const override { return 0; }
  std::string engine() const override { return ""; }
  void run(const ConvBuffers&, void*, cudaStream_t) const override {}
};

TEST(ConvPlanStores, MakeAPlanOnceAndForgetAFailure) {
  ConvPlanStore store;
  int made = 0;
  const auto make = [&] {
    ++made;
    return std::make_unique<NoPlan>();
  };
  EXPECT_THROW(store.get(0, kKey, []() -> std::unique_ptr<ConvPlan> { throw std::runtime_error("no"); }),
               std::runtime_error);
  const ConvPlan& plan = store.get(0, kKey, make);
  EXPECT_EQ(&plan, &store.get(0, kKey, make));
  EXPECT_NE(&plan, &store.get(1, kKey, make));
  ConvPlanKey other = kKey;
  other.type = ElementType::tf32;
  EXPECT_NE(&plan, &store.get(0, other, make));
  EXPECT_EQ(made, 3);
}

}  // namespace
}  // namespace engine::kernels
