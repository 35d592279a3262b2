// Shuffles, votes and barriers of warps against what they are defined to give.

#include "tests/emulator/emulator_fixture.h"

namespace engine::testing {
namespace {

using kernels::launch;

constexpr unsigned kAllLanes = 0xFFFFFFFFU;

class EmulatorWarp : public EmulatorTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    use_seed(GetParam());
  }
};

int thread() { return static_cast<int>(threadIdx.x); }

void shuffle_index_kernel(int* y) { y[thread()] = __shfl_sync(kAllLanes, thread() * 3, thread() * 5 + 64); }
void shuffle_xor_kernel(int* y) { y[thread()] = __shfl_xor_sync(kAllLanes, thread() * 3, 5); }
void shuffle_down_kernel(int* y) { y[thread()] = __shfl_down_sync(kAllLanes, thread() * 3, 4U); }
void shuffle_up_kernel(int* y) { y[thread()] = __shfl_up_sync(kAllLanes, thread() * 3, 4U); }

TEST_P(EmulatorWarp, ShufflesMoveValues) {
  constexpr int kThreads = 96;
  const DeviceArray<int> y(kThreads);
  const auto check = [&](auto expected) {
    const std::vector<int> got = y.read();
    for (int i = 0; i < kThreads; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 3 * expected(i)) << i;
  };
  launch<shuffle_index_kernel>({.block = kThreads}, stream(), y.data());
  check([](int i) { return i / 32 * 32 + (i * 5 + 64) % 32; });
  launch<shuffle_xor_kernel>({.block = kThreads}, stream(), y.data());
  check([](int i) { return i ^ 5; });
  launch<shuffle_down_kernel>({.block = kThreads}, stream(), y.data());
  check([](int i) { return i % 32 + 4 < 32 ? i + 4 : i; });
  launch<shuffle_up_kernel>({.block = kThreads}, stream(), y.data());
  check([](int i) { return i % 32 - 4 >= 0 ? i - 4 : i; });
}

void shuffle_wide_kernel(double* y) {
  y[thread()] = __shfl_xor_sync(kAllLanes, 1.0 / (1 + thread()), 1) + __shfl_xor_sync(kAllLanes, int64_t{1} << 40, 1);
}

TEST_P(EmulatorWarp, ShufflesMoveEightBytes) {
  const DeviceArray<double> y(32);
  launch<shuffle_wide_kernel>({.block = 32}, stream(), y.data());
  const std::vector<double> got = y.read();
  for (int i = 0; i < 32; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 1.0 / (1 + (i ^ 1)) + 0x1p40);
}

void vote_kernel(unsigned* y) {
  const int i = thread();
  unsigned* row = y + i * 5;
  row[0] = __ballot_sync(kAllLanes, i % 3 == 0);
  row[1] = static_cast<unsigned>(__any_sync(kAllLanes, i == 40));
  row[2] = static_cast<unsigned>(__all_sync(kAllLanes, i != 40));
  row[3] = static_cast<unsigned>(__popc(row[0]));
  row[4] = static_cast<unsigned>(__ffs(static_cast<int>(row[0])));
}

TEST_P(EmulatorWarp, VotesCountLanes) {
  const DeviceArray<unsigned> y(64 * 5);
  launch<vote_kernel>({.block = 64}, stream(), y.data());
  const std::vector<unsigned> got = y.read();
  for (unsigned i = 0; i < 64; ++i) {
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < 32; ++lane) ballot |= (i / 32 * 32 + lane) % 3 == 0 ? 1U << lane : 0;
    EXPECT_EQ(got[i * 5], ballot);
    EXPECT_EQ(got[i * 5 + 1], i / 32 == 1 ? 1U : 0U);
    EXPECT_EQ(got[i * 5 + 2], i / 32 == 1 ? 0U : 1U);
    EXPECT_EQ(got[i * 5 + 3], 11U);
    EXPECT_EQ(got[i * 5 + 4], i / 32 == 0 ? 1U : 2U);
  }
}

/// Odd and even lanes meet among themselves, the even ones twice as often.
void partial_mask_kernel(int* y) {
  const int i = thread();
  const unsigned mask = i % 2 == 0 ? 0x55555555U : 0xAAAAAAAAU;
  int sum = i;
  for (int step = 2; step < 32; step *= 2) sum += __shfl_xor_sync(mask, sum, step);
  if (i % 2 == 0) sum = __shfl_sync(mask, sum + i, 4) - 4;
  y[i] = sum;
}

TEST_P(EmulatorWarp, PartialMasksMeetApart) {
  const DeviceArray<int> y(32);
  launch<partial_mask_kernel>({.block = 32}, stream(), y.data());
  const std::vector<int> got = y.read();
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], i % 2 == 0 ? 240 : 256) << i;
}

void short_warp_kernel(int* y) {
  const int sum = __shfl_xor_sync(kAllLanes, thread(), 1);
  y[thread()] = sum + 100 * __all_sync(kAllLanes, 1) + 1000 * __popc(__ballot_sync(kAllLanes, 1));
}

TEST_P(EmulatorWarp, LanesThatABlockLacksAreNotWaitedFor) {
  const DeviceArray<int> y(44);
  launch<short_warp_kernel>({.block = 44}, stream(), y.data());
  const std::vector<int> got = y.read();
  for (int i = 0; i < 44; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], (i ^ 1) + 100 + (i < 32 ? 32000 : 12000)) << i;
}

void foreign_lane_kernel(unsigned* y) {
  if (thread() < 16) y[thread()] = __shfl_sync(0xFFFFU, 7U, 20);
}

TEST_P(EmulatorWarp, ValueOfALaneOutsideOfTheMaskIsPoison) {
  const DeviceArray<unsigned> y(16);
  launch<foreign_lane_kernel>({.block = 32}, stream(), y.data());
  for (const unsigned value : y.read()) EXPECT_EQ(value, 0x7FFF7FFFU);
}

void sync_warp_kernel(int* y) {
  ENGINE_SHARED(int, slot, 64);
  slot[thread()] = thread();
  __syncwarp();
  y[thread()] = slot[thread() ^ 31];
}

TEST_P(EmulatorWarp, SyncwarpOrdersItsLanes) {
  const DeviceArray<int> y(64);
  launch<sync_warp_kernel>({.block = 64}, stream(), y.data());
  const std::vector<int> got = y.read();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i ^ 31);
}

void missing_lane_kernel(int* y) {
  if (thread() == 3) return;
  y[thread()] = __shfl_xor_sync(kAllLanes, 1, 1);
}
void mixed_kernel(int* y) {
  if (thread() < 16) {
    y[thread()] = __shfl_xor_sync(kAllLanes, 1, 1);
  } else {
    y[thread()] = __any_sync(kAllLanes, 1);
  }
}
void outside_of_mask_kernel(int* y) { y[thread()] = __any_sync(0xFFU, 1); }

TEST_P(EmulatorWarp, LanesThatNeverMeetEndTheLaunch) {
  const DeviceArray<int> y(32);
  const auto fails = [&] {
    EXPECT_EQ(cudaStreamSynchronize(stream()), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
  };
  launch<missing_lane_kernel>({.block = 32}, stream(), y.data());
  fails();
  launch<mixed_kernel>({.block = 32}, stream(), y.data());
  fails();
  launch<outside_of_mask_kernel>({.block = 32}, stream(), y.data());
  fails();
  launch<shuffle_xor_kernel>({.block = 32}, stream(), y.data());
  EXPECT_EQ(y.read()[0], 15);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EmulatorWarp, ::testing::Values(0, 1, 2, 77));

}  // namespace
}  // namespace engine::testing
