#include "engine/io/atomic_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "engine/core/error.h"
#include "engine/io/safetensors.h"
#include "tests/support/temp_dir.h"

namespace engine {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// Runs `body` in a child process, where it may spoil limits and mounts; its return value is the exit status.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// 0 where write_file(path, bytes) throws OutputError whose message holds all of `words`.
int expect_output_error(const fs::path& path, size_t bytes, const std::vector<std::string>& words) {
  try {
    write_file(path, std::string(bytes, 'x'));
  } catch (const OutputError& error) {
    for (const std::string& word : words) {
      if (std::string(error.what()).find(word) == std::string::npos) {
        fprintf(stderr, "no \"%s\" in: %s\n", word.c_str(), error.what());
        return 2;
      }
    }
    return error.hint().empty() ? 3 : 0;
  }
  return 1;
}

TEST(AtomicFile, AppearsOnlyWithCommit) {
  const TempDir folder;
  const fs::path path = folder.file("file");
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("new");
    file.patch(1, std::as_bytes(std::span("o", 1)));
    EXPECT_EQ(content(path), "old");
    EXPECT_EQ(names_in(folder.path()).size(), 2U);
    EXPECT_EQ(file.bytes_written(), 3U);
    EXPECT_THROW(file.patch(3, std::as_bytes(std::span("o", 1))), Error);
    file.commit();
  }
  EXPECT_EQ(content(path), "now");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TempDir folder;
  write_file(folder.file("file"), "old");
  { AtomicFile(folder.file("file")).write("new"); }
  EXPECT_EQ(content(folder.file("file")), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

TEST(AtomicFile, TakesNamesOfFullLengthAndBareNames) {
  const TempDir folder;
  const std::string longest(255, 'n');
  write_file(folder.file(longest), "x");
  EXPECT_EQ(content(folder.file(longest)), "x");
  EXPECT_EQ(in_child([&] {
              if (chdir(folder.str().c_str()) != 0) return 1;
              write_file("bare", "y");
              return content(folder.file("bare")) == "y" ? 0 : 2;
            }),
            0);
}

TEST(AtomicFile, RefusesFoldersAndDevices) {
  const TempDir folder;
  for (const std::string& path : {folder.str(), std::string("/dev/null"), std::string("/dev/stdout")}) {
    if (path == "/dev/stdout" && fs::is_regular_file(path)) continue;
    EXPECT_THROW(write_file(path, "x"), OutputError) << path;
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, ReplacesALinkAndNotWhatItPointsTo) {
  const TempDir folder;
  write_file(folder.file("target"), "target");
  fs::create_symlink("target", folder.file("link"));
  write_file(folder.file("link"), "new");
  EXPECT_EQ(content(folder.file("target")), "target");
  EXPECT_FALSE(fs::is_symlink(folder.file("link")));
}

TEST(AtomicFile, NamesTheFailedPath) {
  const TempDir folder;
  const std::string path = folder.file("line\nbreak/file");
  try {
    write_file(path, "x");
    FAIL() << "no error";
  } catch (const OutputError& error) {
    EXPECT_EQ(error.code(), ExitCode::output);
    EXPECT_NE(std::string(error.what()).find("line\\nbreak/file: got No such file"), std::string::npos) << error.what();
  }
}

TEST(LinkFile, GivesTheFileASecondName) {
  const TempDir folder;
  write_file(folder.file("one"), "1");
  write_file(folder.file("two"), "2");
  for (const char* existing : {"one", "one", "two"}) {
    link_file(folder.file(existing), folder.file("last"));
    EXPECT_EQ(content(folder.file("last")), content(folder.file(existing)));
  }
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"last", "one", "two"}));
  EXPECT_THROW(link_file(folder.file("none"), folder.file("last")), OutputError);
  EXPECT_EQ(content(folder.file("last")), "2");
  EXPECT_EQ(names_in(folder.path()).size(), 3U);
}

TEST(LinkFile, CopiesBetweenFileSystems) {
  const TempDir folder;
  const fs::path shared = fs::path("/dev/shm") / fmt::format("engine-link-test-{}", getpid());
  std::ofstream(shared) << "over there";
  if (!fs::exists(shared)) GTEST_SKIP() << "no second file system to write to";
  link_file(shared, folder.file("copy"));
  fs::remove(shared);
  EXPECT_EQ(content(folder.file("copy")), "over there");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"copy"});
}

TEST(StaleTemporaries, AreRemovedAndLiveOnesStay) {
  const TempDir folder;
  write_file(folder.file("kept"), "x");
  EXPECT_EQ(in_child([&] {
              AtomicFile* abandoned = new AtomicFile(folder.file("kept"));
              abandoned->write("half");
              return 0;
            }),
            0);
  EXPECT_EQ(names_in(folder.path()).size(), 2U);
  AtomicFile live(folder.file("kept"));
  live.write("y");
  EXPECT_EQ(remove_stale_temporaries(folder.path()), 1);
  live.commit();
  EXPECT_EQ(content(folder.file("kept")), "y");
  EXPECT_EQ(remove_stale_temporaries(folder.path()), 0);
  EXPECT_EQ(remove_stale_temporaries(folder.file("no such folder")), 0);
}

TEST(MakeFolder, MakesParentsAndNamesWhatFails) {
  const TempDir folder;
  make_folder(folder.file("a/b"));
  make_folder(folder.file("a/b"));
  EXPECT_TRUE(fs::is_directory(folder.file("a/b")));
  write_file(folder.file("file"), "x");
  EXPECT_THROW(make_folder(folder.file("file")), OutputError);
  EXPECT_THROW(make_folder(folder.file("file/below")), OutputError);
}

constexpr int64_t kValues = 500'000;

void save_version(const fs::path& path, float version) {
  const std::vector<float> values(kValues, version);
  const SafetensorsEntry entry{"w", DType::f32, Shape{kValues}, std::as_bytes(std::span(values)), {}};
  write_safetensors(path, std::span(&entry, 1), {}, true);
}

/// The version in a file that must be whole.
float load_version(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  file.verify_sha256();
  std::vector<float> values(kValues);
  file.read(*file.find("w"), std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [&](float v) { return v == values.front(); }));
  return values.front();
}

TEST(Cases, H_CKPT_01_KilledWhileSaving) {
  const TempDir folder;
  const fs::path path = folder.file("last.safetensors");
  save_version(path, 0);
  std::mt19937 random(7);
  std::uniform_int_distribution<int> moment(0, 20'000);
  float version = 0;
  size_t left_behind = 0;
  for (int kill_number = 0; kill_number < 50; ++kill_number) {
    const pid_t child = fork();
    if (child == 0) {
      for (float next = version + 1;; ++next) save_version(path, next);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    float found = -1;
    ASSERT_NO_THROW(found = load_version(path)) << "after kill " << kill_number;
    ASSERT_GE(found, version);
    version = found;
    left_behind = names_in(folder.path()).size() - 1;
  }
  EXPECT_GT(version, 0) << "no save came through, so nothing was tested";
  EXPECT_GT(left_behind, 0U) << "no kill fell into a save, so nothing was tested";
  EXPECT_EQ(remove_stale_temporaries(folder.path()), static_cast<int>(left_behind));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"last.safetensors"});
}

TEST(Cases, H_CKPT_01_FileSizeLimit) {
  const TempDir folder;
  const std::string path = folder.file("last.safetensors");
  write_file(path, "old");
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{100'000, 100'000};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 9;
              return expect_output_error(path, 1'000'000, {path, "1000000 bytes", "File too large"});
            }),
            0);
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(names_in(folder.path()).size(), 1U);
}

TEST(Cases, H_CKPT_01_FullDisk) {
  const TempDir folder;
  constexpr int kNoMount = 77;
  const int result = in_child([&] {
    // The mount lives in the child's own namespace and goes with it.
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.str().c_str(), "tmpfs", 0, "size=4m") != 0) {
      return kNoMount;
    }
    const std::string path = folder.file("last.safetensors");
    save_version(path, 1);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const int failed = expect_output_error(path, 9'000'000, {path, "9000000 bytes", "No space left on device"});
      if (failed != 0) return failed;
      // Without a size the disk is found full while writing.
      try {
        AtomicFile unsized_file{fs::path(path)};
        for (int block = 0; block < 9; ++block) unsized_file.write(std::string(1'000'000, 'x'));
        return 4;
      } catch (const OutputError&) {
      }
      if (names_in(folder.path()).size() != 1) return 5;
    }
    return load_version(path) == 1 ? 0 : 6;
  });
  if (result == kNoMount) GTEST_SKIP() << "no right to mount a tmpfs";
  EXPECT_EQ(result, 0);
}

TEST(Cases, H_CKPT_01_FolderThatTakesNoFiles) {
  // Root may write into read-only folders, but nobody into one that is a file.
  const TempDir folder;
  write_file(folder.file("barrier"), "x");
  const std::string path = folder.file("barrier/last.safetensors");
  EXPECT_THROW(save_version(path, 1), OutputError);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"barrier"});
}

}  // namespace
}  // namespace engine
