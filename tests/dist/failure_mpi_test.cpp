// What becomes of the other processes when one is lost. Each test starts runs under mpirun by itself.

#include <gtest/gtest.h>

#include <random>

#include "engine/dist/processes.h"
#include "tests/dist/job.h"

namespace engine::testing {
namespace {

constexpr int kRanks = 3, kMoments = 4;
constexpr double kTimeout = 2;  // of the communicator, in seconds
constexpr double kEnd = 4;      // what ending may take beyond it, on a busy machine
constexpr double kSoon = 3;     // for what is noticed without waiting for the timeout
constexpr double kStart = 60;
constexpr int kPeerLost = 8;
constexpr int64_t kNever = -1;

class Failures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (launched_processes() != 1) GTEST_SKIP() << "runs alone";
    const unsigned seed = std::random_device()();
    std::printf("seed %u\n", seed);
    std::fflush(stdout);  // or each child of this process says so, too
    random_.seed(seed);
  }
  int draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  static std::vector<std::string> worker(const std::string& kind, int victim, int64_t step) {
    return {WORKER_BINARY, kJobFolder, std::to_string(kTimeout), kind, std::to_string(victim), std::to_string(step)};
  }
  /// mpirun itself ends nobody.
  const std::vector<std::string> recover_{"--enable-recovery"};

  /// All but the victim end within `seconds`, with the exit code of a lost peer and a line that names it and `words`.
  static void expect_end(const Job& job, int victim, double seconds, const std::string& words) {
    const auto start = std::chrono::steady_clock::now();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      ASSERT_TRUE(Job::wait_until([&] { return job.number("code", rank).has_value(); }, seconds - passed.count()))
          << "rank " << rank << " does not end";
      EXPECT_EQ(job.number("code", rank), kPeerLost) << job.error(rank);
      const std::string line = job.error(rank);
      EXPECT_NE(line.find("rank " + std::to_string(victim)), std::string::npos) << line;
      EXPECT_NE(line.find(words), std::string::npos) << line;
      EXPECT_NE(line.find("_reduce of "), std::string::npos) << "no operation: " << line;
    }
  }

  std::mt19937 random_;
};

TEST_F(Failures, H_DIST_04_OthersEndSoonWhenARankIsKilled) {
  for (int moment = 0; moment < kMoments; ++moment) {
    Job job(kRanks, worker("loop", 0, kNever), recover_);
    ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
    std::this_thread::sleep_for(std::chrono::microseconds(draw(50000)));
    const int victim = draw(kRanks);
    job.send(victim, SIGKILL);
    expect_end(job, victim, kSoon, "has ended without a word");
    if (HasFailure()) return;
  }
}

TEST_F(Failures, H_DIST_04_OthersEndInTimeWhenARankIsStopped) {
  for (int moment = 0; moment < kMoments; ++moment) {
    Job job(kRanks, worker("loop", 0, kNever), recover_);
    ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
    std::this_thread::sleep_for(std::chrono::microseconds(draw(50000)));
    const int victim = draw(kRanks);
    job.send(victim, SIGSTOP);
    expect_end(job, victim, kTimeout + kEnd, "no sign of life");
    if (HasFailure()) return;
  }
}

TEST_F(Failures, H_DIST_04_OthersEndSoonWhenARankThrows) {
  for (int moment = 0; moment < kMoments; ++moment) {
    const int victim = draw(kRanks);
    Job job(kRanks, worker("throw", victim, 4 + draw(30)), recover_);
    ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
    expect_end(job, victim, kSoon, "is damaged");
    ASSERT_TRUE(Job::wait_until([&] { return job.number("code", victim).has_value(); }, kEnd));
    EXPECT_EQ(job.number("code", victim), 3) << job.error(victim);
    if (HasFailure()) return;
  }
}

TEST_F(Failures, H_DIST_04_AnErrorThatDropsARequestIsToldWithoutItsWords) {
  Job job(kRanks, worker("drop", 1, 20), recover_);
  ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
  expect_end(job, 1, kSoon, "gives up: an error ended it");
  ASSERT_TRUE(Job::wait_until([&] { return job.number("code", 1).has_value(); }, kEnd));
  EXPECT_EQ(job.number("code", 1), 3) << job.error(1);
}

TEST_F(Failures, H_DIST_04_ARankThatHangsIsNamedAlthoughItLives) {
  Job job(kRanks, worker("hang", 1, 20), recover_);
  ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
  expect_end(job, 1, kTimeout + kEnd, "did not come to it within 2 s, but lives");
}

TEST_F(Failures, H_DIST_04_AWaitByOtherMeansEndsToo) {
  Job hanging(kRanks, worker("watch", 1, 20), recover_);
  ASSERT_TRUE(Job::wait_until([&] { return hanging.all_have("pid"); }, kStart));
  expect_end(hanging, 1, kTimeout + kEnd, "did not come to it within 2 s, but lives");
  Job killed(kRanks, worker("watch", 1, 20), recover_);
  ASSERT_TRUE(Job::wait_until([&] { return killed.all_have("pid"); }, kStart));
  killed.send(1, SIGKILL);
  expect_end(killed, 1, kSoon, "has ended without a word");
}

TEST_F(Failures, H_DIST_04_OthersEndSoonWhenARankIsKilledInCollectivesOfDevices) {
  for (int moment = 0; moment < kMoments; ++moment) {
    Job job(kRanks, worker("device", 0, kNever), recover_);
    ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
    std::this_thread::sleep_for(std::chrono::microseconds(draw(50000)));
    const int victim = draw(kRanks);
    job.send(victim, SIGKILL);
    expect_end(job, victim, kSoon, "has ended without a word");
    if (HasFailure()) return;
  }
}

TEST_F(Failures, ARunThatWasSuspendedAsAWholeGoesOn) {
  Job job(kRanks, worker("loop", 0, kNever), recover_);
  ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
  for (int rank = 0; rank < kRanks; ++rank) job.send(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout + 1));
  for (int rank = 0; rank < kRanks; ++rank) job.send(rank, SIGCONT);
  std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout));
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_FALSE(job.number("code", rank)) << job.error(rank);
}

TEST_F(Failures, OthersDoNotWaitForEverForARankThatNeverConnects) {
  Job job(2, worker("absent", 1, kNever), recover_);
  EXPECT_TRUE(Job::wait_until([&] { return job.number("code", 0).has_value(); }, kStart));
  EXPECT_EQ(job.number("code", 0), kPeerLost) << job.error(0);
  EXPECT_NE(job.error(0).find("not all of them came within 2 s"), std::string::npos) << job.error(0);
}

TEST_F(Failures, H_DIST_04_ARankThatLeavesWithSuccessIsMissed) {
  Job job(kRanks, worker("leave", 2, 20), recover_);
  ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
  expect_end(job, 2, kSoon, "has ended without a word");
}

TEST_F(Failures, H_DIST_04_PlainMpirunLeavesNothingBehind) {
  Job job(kRanks, worker("loop", 0, kNever));
  ASSERT_TRUE(Job::wait_until([&] { return job.all_have("pid"); }, kStart));
  job.send(1, SIGKILL);
  EXPECT_TRUE(Job::wait_until([&] { return job.ended(); }, kTimeout + kEnd));
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto id = static_cast<pid_t>(job.number("pid", rank).value());
    EXPECT_TRUE(Job::wait_until([&] { return kill(id, 0) != 0; }, kEnd)) << "rank " << rank;
  }
}

TEST_F(Failures, H_DIST_05_TwoRunsOnOneMachineDoNotMeet) {
  Job first(2, worker("loop", 0, kNever)), second(2, worker("loop", 0, kNever));
  EXPECT_TRUE(Job::wait_until([&] { return first.all_have("pid") && second.all_have("pid"); }, kStart));
  EXPECT_EQ(first.error(0), "");
  EXPECT_EQ(second.error(0), "");
}

}  // namespace
}  // namespace engine::testing
