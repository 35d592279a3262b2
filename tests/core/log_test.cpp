#include "engine/core/log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "engine/core/error.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Log, CaptureSeesEachLevel) {
  const LogCapture capture;
  log_debug("d {}", 1);
  log_info("i {}", 2);
  log_warn("w {}", 3);
  log_error("e {}", 4);
  const std::vector<std::pair<LogLevel, std::string>> expected = {
      {LogLevel::debug, "d 1"}, {LogLevel::info, "i 2"}, {LogLevel::warning, "w 3"}, {LogLevel::error, "e 4"}};
  EXPECT_EQ(capture.lines(), expected);
}

TEST(Log, NothingIsCapturedAfterwards) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  {
    const LogCapture capture;
    log_info("seen");
    lines = capture.lines();
  }
  log_debug("not seen");
  EXPECT_EQ(lines.size(), 1u);
}

TEST(Log, ObserverRunsBeforeEachLineOnTheTerminal) {
  int lines = 0;
  set_log_observer([&] { ++lines; });
  set_log_level(LogLevel::warning);
  ::testing::internal::CaptureStderr();
  log_info("below the level");
  EXPECT_EQ(lines, 0);
  log_warn("shown");
  EXPECT_EQ(lines, 1);
  set_log_level(LogLevel::info);
  log_info("shown, too");
  set_log_observer({});
  log_info("unobserved");
  EXPECT_EQ(lines, 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: shown\nshown, too\nunobserved\n");
}

TEST(Log, FilesGetAllButDebugAtOnceAndAreAppendedTo) {
  const TempDir folder;
  const std::string path = folder.file("train.log");
  set_log_level(LogLevel::error);
  for (const char* run : {"first", "second"}) {
    add_log_file(path);
    log_debug("debug of {}", run);
    log_info("info of {}", run);
    log_warn("warning of {}", run);
  }
  set_log_level(LogLevel::info);
  const std::string text = text_of(path);
  for (const char* run : {"first", "second"}) {
    EXPECT_NE(text.find(std::string("info: info of ") + run + "\n"), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("warning: warning of ") + run + "\n"), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("debug of"), std::string::npos) << text;
}

TEST(Log, AFileThatCannotBeOpenedIsNamed) {
  const TempDir folder;
  std::ofstream(folder.file("file")) << "x";
  ExpectError<OutputError>([&] { add_log_file(folder.file("file/\ntrain.log")); }, {"log file", "file/\\ntrain.log"});
}

}  // namespace
}  // namespace engine::testing
