// How the build finds CUDA, and what it says where it does not: cmake runs on small made-up trees, and on the project.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace engine::testing {
namespace {

namespace fs = std::filesystem;

struct Output {
  int code = -1;
  int lines = 0;
  std::string text;
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }
};

/// A shell command's exit code and all that it printed, blanks and line breaks turned into single blanks: CMake breaks
/// its messages.
Output shell(const std::string& command) {
  Output output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  bool blank = false;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
    if (c == '\n') ++output.lines;
    if (c == ' ' || c == '\n') {
      blank = true;
      continue;
    }
    if (blank) output.text += ' ';
    blank = false;
    output.text += static_cast<char>(c);
  }
  output.code = WEXITSTATUS(pclose(pipe));
  return output;
}

void write(const fs::path& path, const std::string& text, bool executable = false) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  if (executable) fs::permissions(path, fs::perms::owner_all);
}

std::string in_quotes(const std::string& path) { return "'" + path + "'"; }

/// A tree that looks like a machine's: toolkits, compilers and libraries that are scripts and texts.
class CudaSetup : public ::testing::Test {
 protected:
  void SetUp() override {
    // Nothing in the way of a driver answers, whatever this machine has.
    write(file("tools/nvidia-smi"), "#!/bin/sh\nexit 9\n", true);
    write(file("project/CMakeLists.txt"), "cmake_minimum_required(VERSION 3.22)\nproject(probe LANGUAGES NONE)\n" +
                                              ("include(" + source_dir()) + "/cmake/CudaCompiler.cmake)\n" +
                                              ("include(" + source_dir()) + "/cmake/CudaLibraries.cmake)\n" +
                                              "include(${CMAKE_CURRENT_LIST_DIR}/probe.cmake)\n");
  }

  fs::path file(const std::string& name) const { return folder_.path() / name; }

  /// A toolkit whose nvcc knows these chips and whose header refuses g++ after the limit, and clang++ too.
  fs::path toolkit(const std::string& name, int limit, const std::string& chips = "") const {
    write(file(name + "/bin/nvcc"),
          "#!/bin/sh\ncase $1 in\n--version) echo 'release 11.7, V11.7.99' ;;\n--list-gpu-arch) echo '" + chips +
              "' ;;\n*) exit 1 ;;\nesac\n",
          true);
    const std::string next = std::to_string(limit + 1);
    write(file(name + "/include/crt/host_config.h"), "#if __GNUC__ > " + std::to_string(limit) +
                                                         "\n#endif\n#if (__clang_major__ >= " + next +
                                                         ") || (__clang_major__ < 3)\n#endif\n");
    return file(name);
  }

  /// A compiler by its macros alone.
  fs::path compiler(const std::string& name, const std::string& macros) const {
    write(file(name), "#!/bin/sh\nprintf '" + macros + "'\n", true);
    return file(name);
  }

  void cudnn(const std::string& include, const std::string& library) const {
    write(file(include + "/cudnn_version.h"),
          "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 7\n#define CUDNN_PATCHLEVEL 1\n");
    write(file(include + "/cudnn.h"), "#define CUDNN_MAJOR 6\n#define CUDNN_MINOR 0\n#define CUDNN_PATCHLEVEL 21\n");
    if (!library.empty()) write(file(library), "");
  }

  /// cmake on a project that only runs the text.
  Output probe(const std::string& text, const std::string& flags = "") const {
    write(file("project/probe.cmake"), text);
    return cmake(in_quotes(file("project")), flags);
  }

  /// cmake on this project, without its tests.
  Output configure(const std::string& flags) const {
    return cmake(in_quotes(source_dir()), "-DENGINE_BUILD_TESTS=OFF -DENGINE_BUILD_BENCHMARKS=OFF " + flags);
  }

  Output cmake(const std::string& source, const std::string& flags) const {
    fs::remove_all(file("out"));
    return shell(
        "env -u CUDACXX -u CUDAHOSTCXX -u CUDAARCHS -u CUDA_HOME -u CUDA_PATH PATH=" + in_quotes(file("tools")) +
        ":\"$PATH\" cmake -G Ninja -S " + source + " -B " + in_quotes(file("out")) + " " + flags);
  }

 private:
  TempDir folder_;
};

class Cases : public CudaSetup {};

TEST_F(Cases, H_BLD_01_AHostCompilerThatIsTooNewStopsTheConfigurationAtOnce) {
  const fs::path root = toolkit("cuda", 3);
  const Output refused = configure("-DENGINE_CUDA=ON -DENGINE_CUDA_ROOT=" + in_quotes(root));
  EXPECT_NE(refused.code, 0);
  EXPECT_TRUE(refused.says("nvcc 11.7.99")) << refused.text;
  EXPECT_TRUE(refused.says("++ 3,")) << refused.text;
  EXPECT_TRUE(refused.says("++ " + std::to_string(__GNUC__)) || refused.says("is clang++")) << refused.text;
  EXPECT_TRUE(refused.says("-DCMAKE_CUDA_HOST_COMPILER=")) << refused.text;
  EXPECT_FALSE(refused.says("The CUDA compiler identification")) << refused.text;

  const Output without = configure("-DENGINE_CUDA_ROOT=" + in_quotes(root));
  EXPECT_EQ(without.code, 0) << without.text;
}

TEST_F(Cases, H_BLD_01_AnOlderHostCompilerThatTheUserNamesIsTaken) {
  const std::string nvcc = (toolkit("cuda", 9) / "bin/nvcc").string();
  const auto check = [&](const fs::path& host, const std::string& flags = "") {
    return probe("engine_check_host_compiler(" + nvcc + " " + host.string() + ")", flags);
  };
  const fs::path newer = compiler("g++-10", "#define __GNUC__ 10\\n");
  EXPECT_EQ(check(compiler("g++-9", "#define __GNUC__ 9\\n")).code, 0);
  EXPECT_NE(check(newer).code, 0);
  EXPECT_EQ(check(newer, "-DCMAKE_CUDA_FLAGS=-allow-unsupported-compiler").code, 0);
  EXPECT_EQ(check(compiler("clang-9", "#define __GNUC__ 4\\n#define __clang_major__ 9\\n")).code, 0);
  const Output clang = check(compiler("clang-10", "#define __GNUC__ 4\\n#define __clang_major__ 10\\n"));
  EXPECT_NE(clang.code, 0);
  EXPECT_TRUE(clang.says("clang++ 9,") && clang.says("is clang++ 10")) << clang.text;
  EXPECT_EQ(check(file("no-such-compiler")).code, 0);
}

TEST_F(Cases, H_BLD_02_NativeWithoutAGpuIsTheDefaultListWithANotice) {
  const std::string nvcc = (toolkit("cuda", 99) / "bin/nvcc").string();
  const auto chips = [&](const std::string& wanted, const std::string& compiler) {
    return probe("engine_cuda_architectures(" + compiler + " \"" + wanted + "\" chips)\nmessage(\"[${chips}]\")");
  };
  const Output native = chips("native", nvcc);
  EXPECT_EQ(native.code, 0);
  EXPECT_TRUE(native.says("[80-real;90-real;100]")) << native.text;
  EXPECT_TRUE(native.says("no GPU answers")) << native.text;
  const Output none = chips("", nvcc);
  EXPECT_TRUE(none.says("[80-real;90-real;100]") && !none.says("no GPU answers")) << none.text;
  EXPECT_TRUE(chips("75", nvcc).says("[75]"));
  EXPECT_TRUE(chips("90a-real;120", nvcc).says("[90a-real;120]"));

  const std::string older = (toolkit("older", 99, "compute_75 compute_80 compute_90") / "bin/nvcc").string();
  EXPECT_TRUE(chips("native", older).says("[80-real;90]"));

  write(file("tools/nvidia-smi"), "#!/bin/sh\necho 9.0\necho 10.3\necho 9.0\n", true);
  EXPECT_TRUE(chips("native", nvcc).says("[90-real;103-real]"));
}

TEST_F(Cases, H_BLD_02_TheProjectConfiguresWithTheToolkitAndWithoutADriver) {
  const Output found = probe("engine_find_nvcc(nvcc)\nmessage(\"[${nvcc}]\")");
  if (found.says("[]")) GTEST_SKIP() << "no nvcc here";
  const Output native = configure("-DENGINE_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native");
  EXPECT_EQ(native.code, 0) << native.text;
  EXPECT_TRUE(native.says("architectures 80-real;90-real;100")) << native.text;
  std::ifstream stream(file("out") / "build.ninja");
  const std::string ninja{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  EXPECT_NE(ninja.find("code=[sm_90]"), std::string::npos);
  EXPECT_NE(ninja.find("code=[compute_100,sm_100]"), std::string::npos);
  EXPECT_EQ(ninja.find("emulator/"), std::string::npos) << "the emulator is part of a CUDA build";
}

TEST_F(Cases, H_BLD_02_WithoutNvccOnlyTheCudaBuildStops) {
  const std::string nowhere = "-DCMAKE_CUDA_COMPILER=" + file("no-nvcc").string();
  const Output cuda = configure("-DENGINE_CUDA=ON " + nowhere);
  EXPECT_NE(cuda.code, 0);
  EXPECT_TRUE(cuda.says("no nvcc found") && cuda.says("install_cuda.sh")) << cuda.text;
  EXPECT_EQ(configure(nowhere).code, 0);
}

TEST_F(Cases, H_BLD_03_CudnnIsFoundWhereverPackagesPutIt) {
  struct Layout {
    const char* name;
    std::string include, library;
  };
  const std::string wheels = "venv/lib/python3.11/site-packages/nvidia/";
  const Layout layouts[] = {
      {"/usr/include", "usr/include", "usr/lib/x86_64-linux-gnu/libcudnn.so.9"},
      {"multiarch", "usr/include/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/libcudnn.so.9"},
      {"toolkit", "cuda/include", "cuda/lib64/libcudnn.so"},
      {"toolkit's targets", "cuda/targets/x86_64-linux/include", "cuda/targets/x86_64-linux/lib/libcudnn.so.9"},
      {"wheel", wheels + "cudnn/include", wheels + "cudnn/lib/libcudnn.so.9"},
      {"a folder of its own", "cudnn-9/include", "cudnn-9/lib/libcudnn.so.9"}};
  const std::string text = "set(ENGINE_CUDA_TOP " + file("cuda").string() + ")\nset(ENGINE_CUDA_ROOT " +
                           file("venv").string() + " " + file("cudnn-9").string() + ")\nset(CMAKE_FIND_ROOT_PATH " +
                           file("").string() + ")\nset(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)\n" +
                           "set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)\nengine_find_cuda_libraries()\n";
  for (const Layout& layout : layouts) {
    cudnn(layout.include, layout.library);
    const Output found = probe(text);
    EXPECT_EQ(found.code, 0) << found.text;
    EXPECT_TRUE(found.says("cuDNN: 9.7.1, " + file(layout.library).string())) << layout.name << ": " << found.text;
    EXPECT_TRUE(found.says("headers in " + file(layout.include).string())) << layout.name << ": " << found.text;
    fs::remove(file(layout.library));
    const Output headers = probe(text);
    EXPECT_TRUE(headers.says("cuDNN: not found")) << layout.name << ": " << headers.text;
    fs::remove_all(file(layout.include));
  }
  const Output none = probe(text);
  EXPECT_EQ(none.code, 0) << none.text;
  EXPECT_TRUE(none.says("cuDNN: not found; convolutions run on the project's own kernels") &&
              none.says("NCCL: not found"))
      << none.text;
}

TEST_F(CudaSetup, TheGpuCheckSaysAtOnceThatThereIsNoGpu) {
  if (fs::exists("/proc/driver/nvidia/version")) GTEST_SKIP() << "this machine has a GPU";
  const auto began = std::chrono::steady_clock::now();
  const Output run =
      shell("PATH=" + in_quotes(file("tools")) + ":\"$PATH\" " + in_quotes(source_dir() + "/scripts/gpu_check.sh"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  EXPECT_NE(run.code, 0);
  EXPECT_TRUE(run.says("no NVIDIA GPU")) << run.text;
  EXPECT_EQ(run.lines, 1) << run.text;
}

}  // namespace
}  // namespace engine::testing
