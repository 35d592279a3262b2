// The data pipeline, one thread where nothing else is said: decoding, resampling, and both with normalisation
// ("sample", what a loader's worker does for each picture). items_per_second is pictures per second and core.
//
// Pictures are 500 x 375, about ImageNet's mean size: a photo of the bundled set, enlarged and compressed again by
// libjpeg (4:2:0, quality 90), so that entropy decoding has as much to do as for a photo.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <jpeglib.h>

#include "data/dataset.h"
#include "data/loader.h"
#include "data/transforms.h"

namespace engine {
namespace {

constexpr int kWidth = 500, kHeight = 375;

data::TransformOptions recipe(data::TransformKind kind) {
  return {kind, 224, 256, {0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
}

/// The bundled photo at ImageNet's size, with some noise, since an enlarged photo has no fine detail.
data::Image make_photo() {
  const data::DatasetPair photos = data::open_dataset({});
  const data::Image small = photos.train->load(0);
  data::Image large;
  large.reshape(kHeight, kWidth, 3);
  RandomStream random(1, RandomPurpose::synthetic);
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const size_t from = static_cast<size_t>(y * small.height / kHeight * small.width + x * small.width / kWidth) * 3;
      const int noise = static_cast<int>(random.below(24)) - 12;
      for (size_t c = 0; c < 3; ++c) {
        const int value = small.pixels[from + c] + noise;
        large.pixels[static_cast<size_t>(y * kWidth + x) * 3 + c] = static_cast<uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }
  return large;
}

std::vector<uint8_t> make_jpeg() {
  data::Image photo = make_photo();
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = kWidth;
  info.image_height = kHeight;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = photo.pixels.data() + size_t{info.next_scanline} * kWidth * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<uint8_t> result(bytes, bytes + size);
  std::free(bytes);
  jpeg_destroy_compress(&info);
  return result;
}

const std::vector<uint8_t>& jpeg() {
  static const std::vector<uint8_t> bytes = make_jpeg();
  return bytes;
}

void decode(benchmark::State& state) {
  data::Image image;
  for (auto _ : state) {
    data::decode_image(jpeg(), "photo", {}, image);
    benchmark::DoNotOptimize(image.pixels.data());
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["file_bytes"] = static_cast<double>(jpeg().size());
}
BENCHMARK(decode)->Unit(benchmark::kMicrosecond);

void resize(benchmark::State& state, data::TransformKind kind) {
  data::Image image;
  data::decode_image(jpeg(), "photo", {}, image);
  const data::Transform transform(recipe(kind), 3);
  data::Transform::Scratch scratch;
  std::vector<float> out(224 * 224 * 3);
  for (uint32_t i = 0; auto _ : state) {
    transform.apply(image, RandomStream(1, RandomPurpose::augment, 0, i++), scratch, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(resize, training, data::TransformKind::random_crop)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(resize, evaluation, data::TransformKind::center_crop)->Unit(benchmark::kMicrosecond);

void sample(benchmark::State& state, data::TransformKind kind) {
  data::Image image;
  const data::Transform transform(recipe(kind), 3);
  data::Transform::Scratch scratch;
  std::vector<float> out(224 * 224 * 3);
  for (uint32_t i = 0; auto _ : state) {
    data::decode_image(jpeg(), "photo", {}, image);
    transform.apply(image, RandomStream(1, RandomPurpose::augment, 0, i++), scratch, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(sample, training, data::TransformKind::random_crop)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(sample, evaluation, data::TransformKind::center_crop)->Unit(benchmark::kMicrosecond);

/// Whole epochs of a bundled set through the loader, with so many workers.
void loader(benchmark::State& state, const char* set) {
  data::DatasetOptions options;
  options.sample_set = set;
  const data::DatasetPair pair = data::open_dataset(options);
  const bool digits = pair.mode == data::ImageMode::gray;
  const data::TransformOptions transform{digits ? data::TransformKind::whole : data::TransformKind::random_crop,
                                         digits ? 28 : 64, 0, pair.mean, pair.stddev};
  data::LoaderOptions loading;
  loading.batch_size = 64;
  loading.workers = static_cast<int>(state.range(0));
  data::Loader source(*pair.train, transform, loading);
  int64_t pictures = 0;
  for (int64_t epoch = 0; auto _ : state) {
    source.start(epoch++, 0);
    while (const auto batch = source.next()) pictures += static_cast<int64_t>(batch->samples.size());
  }
  state.SetItemsProcessed(pictures);
}
BENCHMARK_CAPTURE(loader, photos, "photos")->Arg(0)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(loader, digits, "digits")->Arg(0)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace engine
