#include "engine/io/json_lines.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "tests/support/temp_dir.h"

namespace engine {
namespace {

using testing::TempDir;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string object(std::initializer_list<JsonField> fields) { return json_object({fields.begin(), fields.size()}); }

TEST(JsonObject, KeepsOrderAndTypes) {
  EXPECT_EQ(object({{"kind", "train"}, {"step", 10}, {"loss", 2.0}, {"lr", 1e-3}, {"ok", true}}),
            R"({"kind":"train","step":10,"loss":2.0,"lr":0.001,"ok":true})");
  EXPECT_EQ(object({}), "{}");
}

TEST(JsonObject, DoublesComeBackBitForBit) {
  for (const double value : {0.1, -0.0, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789012345680.0, 1e22, 6.02e23,
                             static_cast<double>(2.3025851F)}) {
    const double back = nlohmann::json::parse(object({{"v", value}}))["v"].get<double>();
    EXPECT_EQ(std::signbit(back), std::signbit(value));
    EXPECT_EQ(back, value);
    EXPECT_TRUE(nlohmann::json::parse(object({{"v", value}}))["v"].is_number_float()) << value;
  }
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(nlohmann::json::parse(object({{"v", least}}))["v"].get<int64_t>(), least);
}

TEST(JsonObject, NonFiniteValuesAreNull) {
  EXPECT_EQ(object({{"a", std::nan("")}, {"b", INFINITY}, {"c", -INFINITY}}), R"({"a":null,"b":null,"c":null})");
}

TEST(JsonObject, TextIsEscaped) {
  EXPECT_EQ(object({{"a\"b", "line\nbreak \\ \x01 \u00e9"}}), "{\"a\\\"b\":\"line\\nbreak \\\\ \\u0001 \u00e9\"}");
  EXPECT_EQ(object({{"a", "bad \xff byte"}}), "{\"a\":\"bad \uFFFD byte\"}");
}

TEST(JsonLines, AppendsLinesThatAreThereAtOnce) {
  const TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  {
    JsonLines lines(path);
    lines.append({{"step", 1}});
    EXPECT_EQ(content(path), "{\"step\":1}\n");
  }
  JsonLines again(path);
  again.append({{"step", 2}});
  EXPECT_EQ(content(path), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(JsonLines, CutsOffALineThatAKillLeft) {
  const TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  for (const std::string& torn : {std::string("{\"st"), std::string(10'000, 'x')}) {
    for (const std::string& whole : {std::string(), std::string("{\"step\":1}\n")}) {
      std::ofstream(path, std::ios::trunc) << whole << torn;
      JsonLines(path).append({{"step", 2}});
      EXPECT_EQ(content(path), whole + "{\"step\":2}\n");
    }
  }
}

TEST(JsonLines, FullDiskIsAnOutputError) {
  JsonLines lines("/dev/full");
  try {
    lines.append({{"step", 1}});
    FAIL() << "no error";
  } catch (const OutputError& error) {
    EXPECT_STREQ(error.what(), "cannot write: /dev/full: got No space left on device, expected room for 11 bytes");
    EXPECT_FALSE(error.hint().empty());
  }
  EXPECT_THROW(JsonLines("/dev/null/below"), OutputError);
}

TEST(JsonLines, ALineThatDoesNotFitLeavesNoPart) {
  const TempDir folder;
  const std::string path = folder.file("metrics.jsonl");
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{15, 15};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(9);
    JsonLines lines(path);
    lines.append({{"step", 1}});
    try {
      lines.append({{"step", 2}});
    } catch (const OutputError&) {
      _exit(0);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(path), "{\"step\":1}\n");
}

}  // namespace
}  // namespace engine
