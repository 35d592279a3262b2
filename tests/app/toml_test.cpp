#include "engine/app/toml.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"

namespace engine {
namespace {

/// "KIND: text text" of the only entry; "refused: MESSAGE" where there is an error.
std::string read(const std::string& text) {
  try {
    const auto entries = parse_toml(text, "given.toml");
    if (entries.size() != 1) return fmt::format("{} entries", entries.size());
    constexpr const char* kKinds[] = {"string", "integer", "number", "boolean"};
    return fmt::format("{}{} {}: {}", entries[0].key, entries[0].array ? "[]" : "",
                       kKinds[static_cast<int>(entries[0].kind)], fmt::join(entries[0].texts, "|"));
  } catch (const ConfigError& error) {
    return fmt::format("refused: {}", error.what());
  }
}

TEST(Toml, ReadsScalars) {
  EXPECT_EQ(read("lr = 0.05"), "lr number: 0.05");
  EXPECT_EQ(read("lr=1e-3\n"), "lr number: 1e-3");
  EXPECT_EQ(read("lr = +1_000.5 # a comment"), "lr number: 1000.5");
  EXPECT_EQ(read("a = 0e5"), "a number: 0e5");
  EXPECT_EQ(read("epochs = -12\r\n"), "epochs integer: -12");
  EXPECT_EQ(read("seed = 0xFF_ff"), "seed integer: 65535");
  EXPECT_EQ(read("seed = 0b101"), "seed integer: 5");
  EXPECT_EQ(read("nesterov = true"), "nesterov boolean: true");
  EXPECT_EQ(read("lr = nan"), "lr number: nan");
  EXPECT_EQ(read("\xEF\xBB\xBFlr = 1"), "lr integer: 1");
}

TEST(Toml, ReadsStringsWithEverythingInThem) {
  EXPECT_EQ(read(R"(path = "a # \"quoted\" \\ \u00e9 \U0001F600")"),
            "path string: a # \"quoted\" \\ \u00e9 \U0001F600");
  EXPECT_EQ(read(R"(path = 'C:\no\escapes # here')"), R"(path string: C:\no\escapes # here)");
  EXPECT_EQ(read(R"("quoted key" = "")"), "quoted key string: ");
}

TEST(Toml, ReadsArrays) {
  EXPECT_EQ(read("mean = [0.5, 1, 2e-1]"), "mean[] number: 0.5|1|2e-1");
  EXPECT_EQ(read("a = [\n  30, # first\n  60,\n]\n"), "a[] integer: 30|60");
  EXPECT_EQ(read("a = []"), "a[] string: ");
}

TEST(Toml, RefusesWhatIsNoFlatTable) {
  for (const char* text : {"[table]",
                           "a.b = 1",
                           "a = 1 b = 2",
                           "a =",
                           "a",
                           "= 1",
                           "a = 1979-05-27",
                           "a = \"open",
                           "a = \"\"\"x\"\"\"",
                           "a = [1, \"x\"]",
                           "a = [[1]]",
                           "a = [1",
                           "a = 01",
                           "a = 1.",
                           "a = .5",
                           "a = 1__0",
                           "a = word",
                           "a = \"\\q\"",
                           "a = \"\\ud800\"",
                           "a = \"\xff\"",
                           "a = \"\x01\""}) {
    EXPECT_TRUE(read(text).starts_with("refused: configuration: given.toml: line 1: got "))
        << text << " gave " << read(text);
  }
  EXPECT_EQ(read("lr = 1\nlr = 2\n"),
            "refused: configuration: given.toml: line 2: got lr again, expected each key once");
}

TEST(Toml, QuotedStringsComeBack) {
  const std::string odd("\"quotes\" \\ tab\t newline\n \x01 \x7f caf\u00e9 \U0001F600 # [=]");
  EXPECT_EQ(parse_toml("a = " + toml_string(odd), "x")[0].texts[0], odd);
  EXPECT_EQ(toml_string("\xff"), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace engine
