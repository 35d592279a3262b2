// The rules of the tree, read off the sources: direction of includes, sizes, macros, orphans.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "tests/house/source_text.h"
#include "tests/support/process.h"

namespace engine::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFileLines = 400;
constexpr int kMostFunctionLines = 60;
constexpr int kMostMainLines = 80;
constexpr size_t kMostMacros = 3;

/// Path from the root to text, for all sources.
const std::map<std::string, std::string>& sources() {
  static const std::map<std::string, std::string> files = [] {
    std::map<std::string, std::string> found;
    const std::set<std::string> kinds{".h", ".hpp", ".cuh", ".cpp", ".cc", ".cu"};
    for (const char* top : {"kernels", "engine", "models", "data", "bench", "tests"}) {
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / top)) {
        if (!entry.is_regular_file() || !kinds.contains(entry.path().extension().string())) continue;
        std::ifstream file(entry.path(), std::ios::binary);
        found[fs::relative(entry.path(), source_dir()).string()] = {std::istreambuf_iterator<char>(file),
                                                                    std::istreambuf_iterator<char>()};
      }
    }
    return found;
  }();
  return files;
}

/// Height of a folder in the house; what has none (tests, bench) may include anything.
int rank_of(const std::string& path) {
  static const std::map<std::string, int> ranks{{"kernels", 0},        {"engine/core", 1},  {"engine/autograd", 2},
                                                {"engine/ops", 3},     {"engine/nn", 4},    {"engine/optim", 5},
                                                {"engine/amp", 5},     {"engine/dist", 5},  {"engine/io", 5},
                                                {"engine/profile", 5}, {"engine/train", 6}, {"models", 7},
                                                {"data", 7},           {"engine/app", 8}};
  const size_t first = path.find('/');
  const size_t second = path.find('/', first + 1);
  for (const size_t length : {first, second}) {
    if (const auto found = ranks.find(path.substr(0, length)); found != ranks.end()) return found->second;
  }
  return 9;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::vector<std::string> includes_of(const std::string& text) {
  static const std::regex include("(^|\n)[ \t]*#[ \t]*include[ \t]*\"([^\"]+)\"");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) found.push_back((*it)[2]);
  return found;
}

TEST(House, ThereAreSources) { EXPECT_GE(sources().size(), 50u); }

TEST(House, IncludesPointDownwardOnly) {
  for (const auto& [path, text] : sources()) {
    for (const std::string& target : includes_of(text)) {
      if (rank_of(path) == 9 || !sources().contains(target)) continue;  // tests, generated headers
      EXPECT_LE(rank_of(target), rank_of(path)) << path << " includes " << target;
      // Folders of one height do not know each other: optim, io and the like, and models and data.
      const bool beside = rank_of(target) == rank_of(path) && path.starts_with("kernels/") == false;
      const auto module = [](const std::string& p) {
        return p.starts_with("engine/") ? folder_of(p) : p.substr(0, p.find('/'));
      };
      if (beside) {
        EXPECT_EQ(module(target), module(path)) << path << " includes " << target;
      }
    }
  }
}

TEST(House, ProjectIncludesAreWrittenFromTheRoot) {
  for (const auto& [path, text] : sources()) {
    for (const std::string& target : includes_of(text)) {
      EXPECT_TRUE(sources().contains(target) || target.find('/') == std::string::npos || target.ends_with(".inc"))
          << path << " includes " << target;
      EXPECT_FALSE(sources().contains(folder_of(path) + "/" + target)) << path << " includes " << target;
    }
  }
}

TEST(House, FilesAreShort) {
  for (const auto& [path, text] : sources()) {
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), kMostFileLines) << path;
  }
}

TEST(House, FunctionsAreShort) {
  for (const auto& [path, text] : sources()) {
    for (const FunctionBody& body : function_bodies(text)) {
      const int most = body.head.find("main(") != std::string::npos ? kMostMainLines : kMostFunctionLines;
      EXPECT_LE(body.lines, most) << path << ":" << body.first_line << " " << body.head;
    }
  }
}

TEST(House, AtMostThreeMacros) {
  static const std::regex define("(^|\n)[ \t]*#[ \t]*define[ \t]+([A-Za-z_][A-Za-z0-9_]*)");
  std::set<std::string> ours, foreign;
  for (const auto& [path, raw] : sources()) {
    const std::string text = without_comments_and_strings(raw);
    for (std::sregex_iterator it(text.begin(), text.end(), define), end; it != end; ++it) {
      const std::string name = (*it)[2];
      // A library's own switches, set before its header is read.
      const bool switch_of_library = name.starts_with("STB") || name.starts_with("_");
      (switch_of_library ? foreign : ours).insert(name);
    }
  }
  EXPECT_LE(ours.size(), kMostMacros) << [&] {
    std::string names;
    for (const std::string& name : ours) names += name + " ";
    return names;
  }();
}

TEST(House, LaunchesStandInKernelsCommonOnly) {
  const std::string launch(3, '<');
  for (const auto& [path, text] : sources()) {
    if (path.starts_with("kernels/common/")) continue;
    EXPECT_EQ(without_comments_and_strings(text).find(launch), std::string::npos) << path;
  }
}

/// Folders of kernels/ that are ops.
std::set<std::string> ops() {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(fs::path(source_dir()) / "kernels")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name != "common" && name != "emulator") found.insert(name);
  }
  return found;
}

TEST(House, EachOpHasItsContractAndATest) {
  EXPECT_GE(ops().size(), 8u);
  for (const std::string& op : ops()) {
    EXPECT_TRUE(sources().contains("kernels/" + op + "/" + op + ".h")) << op;
    // What there is on accelerators only has the test of the device.
    EXPECT_TRUE(sources().contains("tests/kernels/" + op + "_test.cpp") ||
                sources().contains("tests/kernels/" + op + "_device_test.cpp"))
        << op;
  }
}

TEST(House, EachEngineOpHasATest) {
  for (const auto& [path, text] : sources()) {
    if (!path.starts_with("engine/ops/") || !path.ends_with(".h")) continue;
    const std::string op = fs::path(path).stem().string();
    // What the ops share is tested through them.
    if (op == "checks" || op == "device_path" || op.ends_with("_device")) continue;
    const bool tested = std::any_of(sources().begin(), sources().end(), [&](const auto& source) {
      return source.first.starts_with("tests/") && source.second.find("\"" + path + "\"") != std::string::npos;
    });
    EXPECT_TRUE(tested) << op;
  }
}

TEST(House, HeadersAreGuarded) {
  for (const auto& [path, text] : sources()) {
    if (!path.ends_with(".h") && !path.ends_with(".cuh")) continue;
    EXPECT_TRUE(text.starts_with("#pragma once\n")) << path;
    EXPECT_EQ(without_comments_and_strings(text).find("using namespace"), std::string::npos) << path;
  }
}

TEST(House, TolerancesComeFromTheTable) {
  // Whole numbers stay: distances of pixels are given in steps of 1/255.
  static const std::regex literal("(EXPECT|ASSERT)_NEAR\\([^;]*, *([0-9]*\\.[0-9]+(e-?[0-9]+)?|[0-9]+e-?[0-9]+)f?\\);");
  for (const auto& [path, text] : sources()) {
    if (path.starts_with("tests/")) {
      EXPECT_FALSE(std::regex_search(without_comments_and_strings(text), literal)) << path;
    }
  }
}

TEST(House, TheDetectorSeesLongFunctions) {
  std::string text = "namespace a {\nclass B {\n  int f() const {\n";
  for (int i = 0; i < 70; ++i) text += "    g(\"}\");  // }\n";
  text += "  }\n};\nvoid h() {\n}\n}\n";
  const auto bodies = function_bodies(text);
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0].lines, 72);
  EXPECT_EQ(bodies[0].first_line, 3);
  EXPECT_EQ(bodies[1].lines, 2);
}

}  // namespace
}  // namespace engine::testing
