#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>

#include "engine/core/random.h"
#include "tests/data/pictures.h"

namespace engine::testing {
namespace {

using data::BadImagePolicy;
using data::Dataset;
using data::DatasetOptions;
using data::DatasetPair;
using data::Image;
using data::ImageMode;
using data::Loader;
using data::LoaderOptions;
using data::TransformKind;
using data::TransformOptions;
using std::chrono::seconds;

DatasetPair open_folder(const std::string& path) {
  DatasetOptions options;
  options.kind = "imagefolder";
  options.path = path;
  return data::open_dataset(options);
}

TransformOptions small_crop(TransformKind kind = TransformKind::random_crop) {
  return {kind, 16, 18, {0, 0, 0}, {1, 1, 1}};
}

struct Seen {
  std::vector<int64_t> samples, sizes;
  std::vector<uint64_t> hashes;  // of each batch's pixels and labels
};

uint64_t hash_of_batch(const Batch& batch) {
  const auto text = [](const Tensor& tensor) {
    return std::string_view(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  };
  if (batch.samples.empty()) return 0;
  return hash_of(text(batch.images)) * 31 + hash_of(text(batch.labels));
}

/// Takes an epoch; checks what holds of every batch.
Seen take_epoch(Loader& loader, const Dataset& dataset, int64_t epoch, int64_t first = 0) {
  Seen seen;
  loader.start(epoch, first);
  while (const auto batch = loader.next()) {
    const auto count = static_cast<int64_t>(batch->samples.size());
    EXPECT_EQ(batch->images.dim(0), count);
    EXPECT_EQ(batch->labels.numel(), count);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(batch->labels.data<int64_t>()[i], dataset.label(batch->samples[static_cast<size_t>(i)]));
    }
    seen.samples.insert(seen.samples.end(), batch->samples.begin(), batch->samples.end());
    seen.sizes.push_back(count);
    seen.hashes.push_back(hash_of_batch(*batch));
  }
  EXPECT_EQ(loader.position(), loader.samples());
  return seen;
}

/// Pictures made up on the spot, some of them slow, some of them failing.
class MadeUp : public Dataset {
 public:
  explicit MadeUp(int64_t size) : Dataset({"a", "b"}, ImageMode::rgb), size_(size) {}
  int64_t size() const override { return size_; }
  int64_t label(int64_t index) const override { return index % 2; }
  void load(int64_t index, Image& image) const override {
    ++loads;
    if (before_load) before_load(index);
    image.reshape(20, 24, 3);
    for (size_t i = 0; i < image.pixels.size(); ++i)
      image.pixels[i] = static_cast<uint8_t>(index * 37 + static_cast<int64_t>(i));
  }
  std::string name_of(int64_t index) const override { return "picture-" + std::to_string(index); }

  std::function<void(int64_t)> before_load;
  mutable std::atomic<int64_t> loads{0};

 private:
  int64_t size_;
};

int64_t file_count(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

int64_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4;
}

TEST(Cases, H_LOAD_01_TrainingDropsASingleSampleEvaluationTakesAll) {
  const DatasetPair pair = open_folder(case_path("H-LOAD-01"));
  ASSERT_EQ(pair.train->size(), 65);
  for (const int workers : {0, 2}) {
    LoaderOptions options{.batch_size = 64, .workers = workers};
    Loader training(*pair.train, small_crop(), options);
    EXPECT_EQ(training.steps_per_epoch(), 1);
    EXPECT_EQ(take_epoch(training, *pair.train, 0).sizes, (std::vector<int64_t>{64}));
    options.training = false;
    Loader evaluation(*pair.train, small_crop(TransformKind::center_crop), options);
    EXPECT_EQ(evaluation.steps_per_epoch(), 2);
    EXPECT_EQ(take_epoch(evaluation, *pair.train, 0).sizes, (std::vector<int64_t>{64, 1}));
  }
}

TEST(Cases, H_LOAD_02_WorkersDoNotMatter) {
  MadeUp dataset(64);
  std::vector<Seen> wanted;
  for (const int workers : {0, 1, 4, 8}) {
    // Some pictures take longer, others with each number of workers.
    dataset.before_load = [workers](int64_t index) {
      if ((index + workers) % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    };
    Loader loader(dataset, small_crop(), {.batch_size = 10, .workers = workers, .seed = 7});
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      const Seen seen = take_epoch(loader, dataset, static_cast<int64_t>(epoch));
      if (wanted.size() <= epoch) wanted.push_back(seen);
      EXPECT_EQ(seen.hashes, wanted[epoch].hashes) << workers << " workers, epoch " << epoch;
      EXPECT_EQ(seen.samples, wanted[epoch].samples);
    }
  }
  EXPECT_NE(wanted[0].hashes, wanted[1].hashes);
}

TEST(Cases, H_LOAD_02_PixelsDependOnSeedEpochAndSample) {
  const MadeUp dataset(8);
  const auto pixels_of = [&](uint64_t seed, int64_t epoch, int64_t batch_size) {
    std::map<int64_t, std::vector<float>> pixels;
    Loader loader(dataset, small_crop(), {.batch_size = batch_size, .workers = 2, .seed = seed});
    loader.start(epoch, 0);
    while (const auto batch = loader.next()) {
      for (size_t i = 0; i < batch->samples.size(); ++i) {
        pixels[batch->samples[i]] = batch->images.select(0, static_cast<int64_t>(i)).to_vector<float>();
      }
    }
    return pixels;
  };
  const auto wanted = pixels_of(7, 0, 8);
  EXPECT_EQ(pixels_of(7, 0, 4), wanted);
  for (const auto& other : {pixels_of(8, 0, 8), pixels_of(7, 1, 8)}) {
    int equal = 0;
    for (const auto& [sample, values] : other) equal += values == wanted.at(sample);
    EXPECT_LE(equal, 1);
  }
}

TEST(Cases, H_LOAD_03_HandlesAndMemoryDoNotGrow) {
  MadeUp dataset(400);
  std::atomic<int> large{0};
  dataset.before_load = [&](int64_t index) {
    if (index % 80 != 0) return;
    Image image;
    image.reshape(2000, 3000, 3);
    ++large;
  };
  Loader loader(dataset, small_crop(), {.batch_size = 32, .workers = 8});
  int64_t after_third = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    take_epoch(loader, dataset, epoch);
    EXPECT_LT(file_count("/proc/self/fd"), 64 + 8);
    if (epoch == 2) after_third = resident_kib();
  }
  EXPECT_EQ(large, 5 * 20);
#ifndef ENGINE_SANITIZED  // AddressSanitizer keeps what is freed for a while
  EXPECT_LT(resident_kib(), after_third + after_third / 50 + 1024);
#endif
  EXPECT_GT(after_third, 0);
}

TEST(Cases, H_LOAD_04_TheDamagedFileIsNamed) {
  const DatasetPair pair = open_folder(case_path("H-LOAD-04"));
  for (const int workers : {0, 1, 4, 16}) {
    const auto begin = std::chrono::steady_clock::now();
    Loader loader(*pair.train, small_crop(), {.batch_size = 4, .workers = workers});
    loader.start(0, 0);
    const auto run = [&] {
      while (loader.next()) {
      }
    };
    const std::string first = expect_data_error(run, {"b/07.jpg"});
    EXPECT_EQ(expect_data_error(run, {"b/07.jpg"}), first);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5)) << workers;
  }
}

TEST(Cases, H_LOAD_04_SkippedFilesAreListedOnce) {
  const DatasetPair pair = open_folder(case_path("H-LOAD-04"));
  for (const int workers : {0, 4}) {
    Loader loader(*pair.train, small_crop(),
                  {.batch_size = 4, .workers = workers, .on_bad_image = BadImagePolicy::skip});
    for (int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(take_epoch(loader, *pair.train, epoch).samples.size(), 11U);
    ASSERT_EQ(loader.skipped().size(), 1U);
    EXPECT_TRUE(loader.skipped()[0].ends_with("b/07.jpg"));
  }
}

TEST(Cases, H_LOAD_04_AnyExceptionInAWorkerArrives) {
  for (const int workers : {0, 4}) {
    MadeUp dataset(40);
    dataset.before_load = [](int64_t index) {
      if (index == 13) throw std::bad_alloc();
    };
    // No damage of the file: not skipped either.
    Loader loader(dataset, small_crop(), {.batch_size = 4, .workers = workers, .on_bad_image = BadImagePolicy::skip});
    loader.start(0, 0);
    try {
      while (loader.next()) {
      }
      ADD_FAILURE() << "no exception";
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find("picture-13"), std::string::npos) << error.what();
    }
    dataset.before_load = [](int64_t index) {
      if (index == 13) throw std::runtime_error("odd");
    };
    Loader other(dataset, small_crop(), {.batch_size = 4, .workers = workers});
    other.start(0, 0);
    expect_data_error(
        [&] {
          while (other.next()) {
          }
        },
        {"picture-13", "odd"});
  }
}

TEST(Loader, ASkippedSampleChangesNoOther) {
  MadeUp good(30), bad(30);
  bad.before_load = [](int64_t index) {
    if (index % 10 == 3) throw DataError("[image] bad: picture-" + std::to_string(index));
  };
  const LoaderOptions options{.batch_size = 8, .workers = 3, .seed = 4, .on_bad_image = BadImagePolicy::skip};
  const auto pictures = [&](const MadeUp& dataset) {
    std::vector<std::pair<int64_t, std::vector<float>>> all;
    Loader loader(dataset, small_crop(), options);
    loader.start(1, 0);
    while (const auto batch = loader.next()) {
      for (size_t i = 0; i < batch->samples.size(); ++i) {
        all.emplace_back(batch->samples[i], batch->images.select(0, static_cast<int64_t>(i)).to_vector<float>());
      }
    }
    return all;
  };
  auto wanted = pictures(good);
  std::erase_if(wanted, [](const auto& picture) { return picture.first % 10 == 3; });
  EXPECT_EQ(pictures(bad), wanted);
}

TEST(Loader, SkippedSamplesDoNotCountInTheirStep) {
  MadeUp dataset(16);
  dataset.before_load = [](int64_t index) {
    if (index < 5) throw DataError("[image] bad");
  };
  Loader loader(dataset, small_crop(),
                {.batch_size = 4, .accumulate_steps = 2, .workers = 2, .on_bad_image = BadImagePolicy::skip});
  loader.start(0, 0);
  for (int step = 0; step < 2; ++step) {
    int64_t claimed = -1, counted = 0;
    while (const auto batch = loader.next()) {
      if (claimed < 0) claimed = batch->global_samples;
      EXPECT_EQ(batch->global_samples, claimed);
      EXPECT_NE(batch->samples.size(), 1U);
      counted += static_cast<int64_t>(batch->samples.size());
      if (batch->last_of_step) break;
    }
    EXPECT_EQ(counted, claimed);
    EXPECT_LT(claimed, 8);
  }
  EXPECT_FALSE(loader.next());
  EXPECT_EQ(loader.skipped().size(), 5U);
}

TEST(Loader, AnEpochWithoutAnyGoodPictureIsAnError) {
  MadeUp dataset(6);
  dataset.before_load = [](int64_t) { throw DataError("[image] bad"); };
  Loader loader(dataset, small_crop(), {.batch_size = 4, .workers = 2, .on_bad_image = BadImagePolicy::skip});
  loader.start(0, 0);
  expect_data_error(
      [&] {
        while (loader.next()) {
        }
      },
      {"6 pictures"});
}

TEST(Loader, GoesOnInTheMiddleOfAnEpoch) {
  const MadeUp dataset(50);
  const LoaderOptions options{.batch_size = 8, .workers = 2, .seed = 3};
  Loader whole(dataset, small_crop(), options), second(dataset, small_crop(), options);
  const Seen all = take_epoch(whole, dataset, 2);
  second.start(2, 0);
  second.next();
  second.next();
  EXPECT_EQ(second.position(), 16);
  Loader resumed(dataset, small_crop(), options);
  const Seen rest = take_epoch(resumed, dataset, 2, second.position());
  EXPECT_EQ(rest.hashes, std::vector<uint64_t>(all.hashes.begin() + 2, all.hashes.end()));
  EXPECT_EQ(resumed.steps_from(16), 5);
}

TEST(Loader, StartsAgainAndStopsInTheMiddle) {
  MadeUp dataset(64);
  dataset.before_load = [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  for (const int workers : {0, 1, 8}) {
    Loader loader(dataset, small_crop(), {.batch_size = 8, .workers = workers, .seed = 1});
    const Seen wanted = take_epoch(loader, dataset, 0);
    loader.start(5, 0);
    loader.next();
    EXPECT_EQ(take_epoch(loader, dataset, 0).hashes, wanted.hashes) << workers;
    loader.start(6, 0);
  }
}

TEST(Loader, ReadsAheadOnlySoFar) {
  MadeUp dataset(1000);
  Loader loader(dataset, small_crop(), {.batch_size = 10, .workers = 4});
  loader.start(0, 0);
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_GE(dataset.loads, 20);
  EXPECT_LE(dataset.loads, 60);
}

TEST(Loader, CountsTheTimeItWaits) {
  MadeUp dataset(4);
  dataset.before_load = [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  for (const int workers : {0, 1}) {
    Loader loader(dataset, small_crop(), {.batch_size = 4, .workers = workers});
    take_epoch(loader, dataset, 0);
    EXPECT_GE(loader.wait_seconds(), 30e-3) << workers;
  }
}

TEST(Loader, RefusesNegativeWorkersAndWrongChannels) {
  const MadeUp dataset(4);
  EXPECT_THROW(Loader(dataset, small_crop(), {.workers = -1}), ConfigError);
  EXPECT_THROW(Loader(dataset, {TransformKind::whole, 28, 0, {0}, {1}}, {}), ConfigError);
}

}  // namespace
}  // namespace engine::testing
