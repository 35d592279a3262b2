#include "tests/dist/world.h"

#include <gtest/gtest.h>

#include "engine/dist/processes.h"

namespace engine::testing {
namespace {

constexpr double kTimeout = 60;

std::unique_ptr<Communicator>& connected() {
  static std::unique_ptr<Communicator> communicator;
  return communicator;
}

/// Ends MPI together with the other processes.
class WorldEnvironment final : public ::testing::Environment {
 public:
  void TearDown() override {
    if (connected()) connected()->close();
    connected().reset();
  }
};

[[maybe_unused]] const auto* kEnvironment = ::testing::AddGlobalTestEnvironment(new WorldEnvironment);

TEST(World, EveryProcessHasItsPlace) {
  const ProcessPlace& place = world().place();
  EXPECT_GE(place.rank, 0);
  EXPECT_LT(place.rank, place.size);
  if (launched_processes() > 0) {
    EXPECT_EQ(place.size, launched_processes());
  }
  EXPECT_EQ(place.local_rank, place.rank);  // the tests' processes are on one host
  EXPECT_EQ(place.local_size, place.size);
}

}  // namespace

Communicator& world() {
  if (!connected()) connected() = connect_processes(kTimeout);
  return *connected();
}

}  // namespace engine::testing
