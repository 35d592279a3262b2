#include "engine/dist/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/core/error.h"
#include "engine/dist/hash.h"
#include "tests/dist/world.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tiny_models.h"

namespace engine::testing {
namespace {

class Agreement : public AcceleratorTest {};

TEST_F(Agreement, EveryRankGetsTheModelOfRankZero) {
  for (const Device device : {Device::cpu(), Device::accelerator()}) {
    for (const DType compute : {DType::f32, DType::bf16}) {
      const auto model = make_tiny_model(static_cast<uint64_t>(world().rank()) + 1), first = make_tiny_model(1);
      FlatParameters flat(*model, device, compute);
      FlatParameters wanted(*first, device, compute);
      flat.statistics().fill(world().rank() + 0.5);
      wanted.statistics().fill(0.5);
      *flat.counters().at(0).tensor.data<int64_t>() = world().rank() + 40;
      broadcast_model(world(), flat);
      ExpectSameBits(flat.master().to_vector<float>(), wanted.master().to_vector<float>());
      ExpectSameBits(flat.statistics().to_vector<float>(), wanted.statistics().to_vector<float>());
      EXPECT_EQ(flat.counters().at(0).tensor.item(), 40);
      if (compute != DType::f32) {
        const Tensor got = flat.regions()[0].compute_copy.to(Device::cpu());
        const Tensor want = wanted.regions()[0].compute_copy.to(Device::cpu());
        EXPECT_EQ(std::memcmp(got.raw(), want.raw(), static_cast<size_t>(want.bytes())), 0);
      }
    }
  }
}

TEST_F(Agreement, AModelThatDiffersByOneBitIsNamed) {
  const auto model = make_tiny_model(1);
  FlatParameters flat(*model);
  verify_same_model(world(), flat, "in the test");
  if (world().size() == 1) return;
  const int odd = world().size() - 1;
  if (world().rank() == odd) {
    float& value = flat.statistics().data<float>()[1];
    value = std::nextafter(value, 10.0F);
  }
  ExpectError<Error>([&] { verify_same_model(world(), flat, "in the test"); },
                     {"running statistics in the test", "rank " + std::to_string(odd)});
}

TEST_F(Agreement, SettingsThatDifferAreAConfigurationErrorOnEveryRank) {
  agree_on(world(), {{"--lr", "0.1"}, {"--seed", "1"}});
  if (world().size() == 1) return;
  const std::string seed = world().rank() == 1 ? "2" : "1";
  ExpectError<ConfigError>(
      [&] {
        agree_on(world(), {{"--lr", "0.1"}, {"--seed", seed}});
      },
      {"--seed 2 on rank 1", "--seed 1 on rank 0"});
  std::vector<std::pair<std::string, std::string>> settings{{"--lr", "0.1"}};
  if (world().rank() == 1) settings.emplace_back("--ema", "0.9");
  ExpectError<ConfigError>([&] { agree_on(world(), settings); }, {"--ema 0.9 on rank 1", "nothing on rank 0"});
}

TEST_F(Agreement, AnErrorOnOneRankIsAnErrorOnAll) {
  int runs = 0;
  do_together(world(), "reading", [&] { ++runs; });
  EXPECT_EQ(runs, 1);
  const int bad = world().size() - 1;
  const auto work = [&] {
    if (world().rank() == bad) throw DataError("a.jpg is damaged");
  };
  if (world().rank() == bad) {
    ExpectError<DataError>([&] { do_together(world(), "reading", work); }, {"a.jpg is damaged"});
  } else {
    ExpectError<PeerError>([&] { do_together(world(), "reading", work); },
                           {"reading", "rank " + std::to_string(bad), "a.jpg is damaged"});
  }
}

TEST(Hash, TellsNeighboursApart) {
  const auto hash = [](const std::string& text) {
    Hash all;
    all.add(text.data(), text.size());
    return all.value();
  };
  std::vector<uint64_t> seen;
  for (int length = 0; length < 40; ++length) {
    std::string text(static_cast<size_t>(length), '\0');
    seen.push_back(hash(text));
    for (char& c : text) {
      c = 1;
      seen.push_back(hash(text));
      c = 0;
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

}  // namespace
}  // namespace engine::testing
