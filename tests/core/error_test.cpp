#include "engine/core/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "engine/core/device.h"
#include "tests/support/errors.h"

namespace engine::testing {
namespace {

TEST(Error, ClassesCarryTheirExitCode) {
  EXPECT_EQ(static_cast<int>(Error("x").code()), 1);
  EXPECT_EQ(static_cast<int>(ConfigError("x").code()), 2);
  EXPECT_EQ(static_cast<int>(DataError("x").code()), 3);
  EXPECT_EQ(static_cast<int>(CheckpointError("x").code()), 4);
  EXPECT_EQ(static_cast<int>(DeviceError("x").code()), 5);
  EXPECT_EQ(static_cast<int>(OutOfMemoryError("x").code()), 6);
  EXPECT_EQ(static_cast<int>(TrainingError("x").code()), 7);
  EXPECT_EQ(static_cast<int>(PeerError("x").code()), 8);
  EXPECT_EQ(static_cast<int>(OutputError("x").code()), 9);
  EXPECT_EQ(OutputError("x", "free some space").hint(), "free some space");
}

TEST(Error, ChecksNameConditionAndPlace) {
  const int got = 3;
  ENGINE_CHECK(got == 3, "never seen");
  ExpectError<Error>([&] { ENGINE_CHECK(got == 4, "[op] x: got {}, expected 4", got); },
                     {"[op] x: got 3, expected 4", "got == 4", "error_test.cpp"});
}

TEST(Error, SystemMessages) { EXPECT_EQ(system_message(ENOENT), "No such file or directory"); }

TEST(Escaped, PlainTextStays) {
  const std::string text = "a folder/M\xC3\xBCnchen \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98\x80.png";
  EXPECT_EQ(escaped(text), text);
  EXPECT_EQ(escaped(""), "");
}

TEST(Escaped, ControlCharactersBecomeVisible) {
  EXPECT_EQ(escaped("a\nb\tc\rd\\e"), "a\\nb\\tc\\rd\\\\e");
  EXPECT_EQ(escaped(std::string_view("\0\x1b[2J\x7f", 6)), "\\x00\\x1b[2J\\x7f");
  EXPECT_EQ(escaped("\xC2\x9B"
                    "31m"),
            "\\xc2\\x9b31m");  // a C1 control character: terminals take it for ESC [
  EXPECT_EQ(escaped("\xC2\xA0"), "\xC2\xA0");
  for (int c = 0; c < 0x20; ++c) {
    const std::string out = escaped(std::string(1, static_cast<char>(c)));
    EXPECT_EQ(out[0], '\\') << c;
    EXPECT_GE(out.size(), 2u) << c;
  }
}

TEST(Escaped, IllFormedUtf8BecomesVisible) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x80", "\\x80"},                    // a continuation alone
      {"\xC0\xAF", "\\xc0\\xaf"},           // overlong
      {"\xE0\x80\x80", "\\xe0\\x80\\x80"},  // overlong
      {"\xF0\x80\x80\x80", "\\xf0\\x80\\x80\\x80"},
      {"\xED\xA0\x80", "\\xed\\xa0\\x80"},           // a surrogate
      {"\xF4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // past U+10FFFF
      {"\xF5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
      {"a\xE6\x97", "a\\xe6\\x97"},  // cut off
      {"\xE6"
       "ab",
       "\\xe6"
       "ab"},
      {"\xFF", "\\xff"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(escaped(text), expected);
}

TEST(Device, SpellingsOfTheCpu) {
  EXPECT_EQ(parse_device("cpu"), Device::cpu());
  EXPECT_EQ(parse_device("auto"), Device::cpu());
  EXPECT_EQ(name_of(Device::cpu()), "cpu");
  EXPECT_EQ(name_of(Device{DeviceKind::cuda, 1}), "cuda:1");
  EXPECT_EQ(name_of(Device{DeviceKind::emulated, 0}), "emulated:0");
}

TEST(Device, DevicesThatThisBuildLacks) {
  const std::string missing = kernels::kBuiltWithCuda ? "emulated" : "cuda";
  for (const std::string& text : {missing, missing + ":0", missing + ":7"}) {
    ExpectError<DeviceError>([&] { parse_device(text); }, {"--device", text, "got a build without", "expected"});
  }
}

TEST(Device, OtherSpellingsAreRefused) {
  for (const char* text : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:+1", "cuda: 1",
                           "cuda:99999999999", "emulated:1.5", ":0"}) {
    ExpectError<ConfigError>([&] { parse_device(text); }, {"--device: got \"" + std::string(text) + "\"", "expected"});
  }
  for (const char* text : {"cuda:\n", "a\nb", "a\n:x"}) {
    EXPECT_EQ(message_of<ConfigError>([&] { parse_device(text); }).find('\n'), std::string::npos);
  }
}

TEST(Device, DescribesTheProcessor) {
  const CpuDescription cpu = describe_cpu();
  EXPECT_GE(cpu.cores, 1);
  EXPECT_GT(cpu.memory_bytes, 1 << 20);
  EXPECT_FALSE(cpu.name.empty());
}

}  // namespace
}  // namespace engine::testing
