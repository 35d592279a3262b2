#include "engine/io/tensorboard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/atomic_file.h"
#include "engine/io/crc32c.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tolerance.h"

namespace engine {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;

/// CRC32C bit by bit, independent of the engine's table.
uint32_t plain_masked_crc(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82F63B78U : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

template <typename T>
T number(std::string_view bytes, size_t at = 0) {
  T value{};
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("cut");
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// A field of a protobuf message: a varint in `integer`, else raw bytes.
struct Field {
  uint64_t number = 0;
  uint64_t integer = 0;
  std::string_view bytes;
};

std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<uint8_t>(message);
      message.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (!message.empty()) {
    const uint64_t key = varint();
    Field field{key >> 3, 0, {}};
    const uint64_t kind = key & 7;
    if (kind == 0) {
      field.integer = varint();
    } else {
      const uint64_t length = kind == 1 ? 8 : kind == 5 ? 4 : varint();
      if (length > message.size()) throw std::runtime_error("cut");
      field.bytes = message.substr(0, length);
      message.remove_prefix(length);
    }
    fields.push_back(field);
  }
  return fields;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Payloads of a file's records; throws where a checksum or length is wrong.
std::vector<std::string> payloads(const fs::path& path) {
  std::vector<std::string> out;
  const std::string text = content(path);
  for (std::string_view rest = text; !rest.empty();) {
    const auto length = number<uint64_t>(rest);
    const auto payload = rest.substr(12, length);
    if (number<uint32_t>(rest, 8) != plain_masked_crc(rest.substr(0, 8)) ||
        number<uint32_t>(rest, 12 + length) != plain_masked_crc(payload)) {
      throw std::runtime_error("wrong checksum");
    }
    out.emplace_back(payload);
    rest.remove_prefix(16 + length);
  }
  return out;
}

using Curves = std::map<std::string, std::vector<std::pair<int64_t, float>>>;

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// All points of a folder in the order of reading; with `honour_starts` as TensorBoard reads them, which drops at a
/// session start what it has from that step on.
Curves curves_of(const fs::path& folder, bool honour_starts) {
  Curves curves;
  for (const fs::path& path : event_files(folder)) {
    for (const std::string& payload : payloads(path)) {
      int64_t step = 0;
      for (const Field& field : fields_of(payload)) {
        if (field.number == 2) step = static_cast<int64_t>(field.integer);
        if (field.number == 7 && honour_starts && fields_of(field.bytes).at(0).integer == 1) {
          for (auto& [tag, points] : curves)
            std::erase_if(points, [&](const auto& point) { return point.first >= step; });
        }
        if (field.number != 5) continue;
        for (const Field& value : fields_of(field.bytes)) {
          std::string tag;
          for (const Field& part : fields_of(value.bytes)) {
            if (part.number == 1) tag = part.bytes;
            if (part.number == 2) curves[tag].emplace_back(step, number<float>(part.bytes));
          }
        }
      }
    }
  }
  return curves;
}

TEST(Crc32c, PublishedCheckValue) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span("123456789", 9))), 0xE3069283U);
  // RFC 3720, section B.4.
  const std::vector<std::byte> zeros(32), ones(32, std::byte{0xFF});
  EXPECT_EQ(crc32c(zeros), 0x8A9136AAU);
  EXPECT_EQ(crc32c(ones), 0x62A8AB43U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(EventWriter, ScalarsAreThereAtOnce) {
  const TempDir folder;
  EventWriter writer(folder.path());
  writer.scalars(10, {{"train/loss", 2.5}, {"train/lr", 0}});
  writer.scalars(20, {{"train/loss", 1.25}});
  const Curves wanted{{"train/loss", {{10, 2.5F}, {20, 1.25F}}}, {"train/lr", {{10, 0.0F}}}};
  EXPECT_EQ(curves_of(folder.path(), true), wanted);
  EXPECT_EQ(writer.path().filename().native().rfind("events.out.tfevents.", 0), 0U);
  const std::vector<std::string> records = payloads(writer.path());
  const auto first = fields_of(records.at(0));
  EXPECT_EQ(first.back().number, 3U);
  EXPECT_EQ(first.back().bytes, "brain.Event:2");
}

TEST(EventWriter, ValuesThatAreNotFiniteStay) {
  const TempDir folder;
  EventWriter writer(folder.path());
  writer.scalars(1, {{"a", std::nan("")}, {"b", INFINITY}});
  Curves curves = curves_of(folder.path(), true);
  EXPECT_TRUE(std::isnan(curves["a"].at(0).second));
  EXPECT_TRUE(std::isinf(curves["b"].at(0).second));
}

TEST(EventWriter, FilesOfOneSecondKeepTheirOrder) {
  const TempDir folder;
  std::vector<fs::path> paths;
  for (int i = 0; i < 12; ++i) paths.push_back(EventWriter(folder.path()).path());
  EXPECT_EQ(event_files(folder.path()), paths);
}

TEST(EventWriter, FolderThatIsNoneIsAnOutputError) {
  const TempDir folder;
  EXPECT_THROW(EventWriter(folder.file("none")), OutputError);
}

TEST(Histogram, CountsMatchTheValues) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i) - 300) / 100;
  values.push_back(std::nanf(""));
  values.push_back(INFINITY);
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(histogram.count, 1000);
  EXPECT_EQ(histogram.min, -3);
  EXPECT_EQ(histogram.max, values[999]);
  const double tol = testing::tolerance<double>(1000, testing::OpClass::reduction);
  EXPECT_NEAR(histogram.sum, 1995, tol * 1995 + 1000 * testing::tolerance<float>(1, testing::OpClass::elementwise));
  ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
  double below = 0;
  for (size_t i = 0; i < histogram.limits.size(); ++i) {
    below += histogram.counts[i];
    const auto wanted = std::count_if(values.begin(), values.end(), [&](float v) { return v <= histogram.limits[i]; });
    EXPECT_EQ(below, wanted) << "up to " << histogram.limits[i];
  }
  EXPECT_GT(histogram.counts.front(), 0);
  EXPECT_GT(histogram.counts.back(), 0);
}

TEST(Histogram, ExtremesAndNothing) {
  EXPECT_EQ(histogram_of({}).limits.size(), 1U);
  const float largest = std::numeric_limits<float>::max();
  const Histogram histogram = histogram_of(std::vector<float>{-largest, 0, 1e-38F, largest});
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), 4);
  EXPECT_GE(histogram.limits.back(), static_cast<double>(largest));
}

TEST(Histogram, IsWrittenUnderTensorBoardsNumbers) {
  const TempDir folder;
  EventWriter writer(folder.path());
  writer.histogram(5, "fc.weight", histogram_of(std::vector<float>{1, 2, 2}));
  const std::vector<std::string> records = payloads(writer.path());
  std::map<uint64_t, double> numbers;
  std::vector<double> counts;
  for (const Field& field : fields_of(records.at(1))) {
    if (field.number != 5) continue;
    for (const Field& part : fields_of(fields_of(field.bytes).at(0).bytes)) {
      if (part.number != 5) continue;
      for (const Field& histo : fields_of(part.bytes)) {
        if (histo.number <= 5) numbers[histo.number] = number<double>(histo.bytes);
        for (size_t at = 0; histo.number == 7 && at < histo.bytes.size(); at += 8)
          counts.push_back(number<double>(histo.bytes, at));
      }
    }
  }
  EXPECT_EQ(numbers, (std::map<uint64_t, double>{{1, 1}, {2, 2}, {3, 3}, {4, 5}, {5, 9}}));
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), 3);
}

constexpr const char* kLoss = "train/loss";

void log_steps(EventWriter& writer, int64_t begin, int64_t end, float value) {
  for (int64_t step = begin; step <= end; step += 10) writer.scalars(step, {{kLoss, value}});
}

TEST(Cases, H_OPS_03_CurvesGoOnAfterResume) {
  for (const bool torn : {false, true}) {
    const TempDir folder;
    {
      EventWriter writer(folder.path());
      log_steps(writer, 10, 150, 1);
      if (torn) fs::resize_file(writer.path(), fs::file_size(writer.path()) - 3);
    }
    EventWriter resumed(folder.path(), 100);
    log_steps(resumed, 110, 200, 2);
    Curves wanted;
    for (int64_t step = 10; step <= 200; step += 10) wanted[kLoss].emplace_back(step, step <= 100 ? 1.0F : 2.0F);
    EXPECT_EQ(curves_of(folder.path(), false), wanted) << "one value a step for a plain reader";
    EXPECT_EQ(curves_of(folder.path(), true), wanted) << "and for one that honours session starts";
  }
}

TEST(Cases, H_OPS_03_SessionStartMakesReadersDropLaterSteps) {
  // A reader that has the older records in memory already sees only the new file.
  const TempDir folder, copy;
  EventWriter writer(folder.path());
  log_steps(writer, 10, 150, 1);
  fs::copy_file(writer.path(), copy.path() / writer.path().filename());
  EventWriter resumed(folder.path(), 100);
  log_steps(resumed, 110, 200, 2);
  fs::copy_file(resumed.path(), copy.path() / resumed.path().filename());
  Curves wanted;
  for (int64_t step = 10; step <= 200; step += 10) wanted[kLoss].emplace_back(step, step <= 100 ? 1.0F : 2.0F);
  EXPECT_EQ(curves_of(copy.path(), true), wanted);
}

TEST(Cases, H_OPS_03_RecordsBehindADamageAreDroppedAndTheRestStays) {
  const TempDir folder;
  fs::path first;
  {
    EventWriter writer(folder.path());
    log_steps(writer, 10, 30, 1);
    first = writer.path();
  }
  const std::string whole = content(first);
  set_log_level(LogLevel::error);  // a warning for each cut
  // Every way of cutting the file, and a length that lies.
  for (size_t length = 0; length <= whole.size(); ++length) {
    write_file(first, whole.substr(0, length));
    const fs::path second = EventWriter(folder.path(), 20).path();
    EXPECT_NO_THROW(payloads(first)) << length;
    EXPECT_LE(curves_of(folder.path(), false)[kLoss].size(), 2U);
    fs::remove(second);
  }
  std::string lying = whole;
  std::memset(lying.data(), 0xFF, 8);
  write_file(first, lying);
  const EventWriter resumed(folder.path(), 20);
  EXPECT_EQ(fs::file_size(first), 0U);
  set_log_level(LogLevel::info);
}

TEST(Cases, H_OPS_03_ResumeFromTheBeginningDropsAll) {
  const TempDir folder;
  {
    EventWriter writer(folder.path());
    log_steps(writer, 10, 30, 1);
  }
  EventWriter resumed(folder.path(), 0);
  log_steps(resumed, 10, 10, 2);
  EXPECT_EQ(curves_of(folder.path(), false), (Curves{{kLoss, {{10, 2.0F}}}}));
}

}  // namespace
}  // namespace engine
