#include "engine/io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <map>

#include "engine/core/error.h"
#include "engine/io/sha256.h"
#include "tests/support/cases.h"
#include "tests/support/temp_dir.h"

namespace engine {
namespace {

namespace fs = std::filesystem;
using testing::case_path;
using testing::TempDir;

/// A file's bytes from its two parts, as json.dumps and struct.pack would make them.
std::string file_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

SafetensorsFile parse(const std::string& bytes) {
  return SafetensorsFile::from_memory(std::as_bytes(std::span(bytes)), "file");
}

template <typename T>
std::vector<T> values(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (info == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<T> out(info->bytes() / sizeof(T));
  file.read(*info, std::as_writable_bytes(std::span(out)));
  return out;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The message of the CheckpointError that `action` must throw.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

template <typename T>
SafetensorsEntry entry_of(const std::string& name, const Shape& shape, const std::vector<T>& data) {
  return {name, dtype_of<T>, shape, std::as_bytes(std::span(data)), {}};
}

const std::vector<float> kFour{1, 2, 3, 4};

TEST(Sha256, FipsExamples) {
  Sha256 abc;
  abc.update(std::as_bytes(std::span("a", 1)));
  abc.update(std::as_bytes(std::span("bc", 2)));
  EXPECT_EQ(abc.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().finish(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Safetensors, WritesTheBytesKnownByHand) {
  const TempDir folder;
  const std::vector<SafetensorsEntry> entries{entry_of("w", {2, 2}, kFour)};
  EXPECT_EQ(write_safetensors(folder.file("f"), entries), 88U);
  const std::string header = R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}       )";
  const std::string length("\x40\0\0\0\0\0\0\0", 8);
  const std::string data("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40", 16);
  EXPECT_EQ(content(folder.file("f")), length + header + data);
}

TEST(Safetensors, RoundTrip) {
  const TempDir folder;
  const std::vector<float> odd{0.5F, -0.0F, 3e38F};
  const std::vector<double> doubles{1.0 / 3};
  const std::vector<int64_t> count{42};
  const std::vector<int32_t> ints{-1, 2};
  const std::vector<uint8_t> bytes{255};
  const std::vector<kernels::Half> halves{kernels::Half(1.5F)};
  const std::vector<kernels::BFloat16> brains{kernels::BFloat16(-2.0F)};
  std::vector<SafetensorsEntry> entries{
      entry_of("b", {1}, bytes), entry_of("odd \"name\" \u00e9", {3, 1}, odd),    entry_of("count", {}, count),
      entry_of("i", {2}, ints),  entry_of("empty", {0, 7}, std::vector<float>{}), entry_of("h", {1}, halves),
      entry_of("g", {1}, brains)};
  // A filled entry: its bytes are made when its turn comes.
  entries.push_back(
      {"d", DType::f64, Shape{1}, {}, [&](std::span<std::byte> out) { std::memcpy(out.data(), doubles.data(), 8); }});
  const Metadata metadata{{"config", "a = \"b\"\n"}, {"", "\u00e9\t"}};
  write_safetensors(folder.file("f"), entries, metadata, true);

  const SafetensorsFile file = SafetensorsFile::open(folder.file("f"));
  file.verify_sha256();
  Metadata read = file.metadata();
  EXPECT_EQ(read.erase("data_sha256"), 1U);
  EXPECT_EQ(read, metadata);
  ASSERT_EQ(file.tensors().size(), entries.size());
  EXPECT_EQ(values<float>(file, "odd \"name\" \u00e9"), odd);
  EXPECT_EQ(file.find("odd \"name\" \u00e9")->shape, (Shape{3, 1}));
  EXPECT_EQ(values<double>(file, "d"), doubles);
  EXPECT_EQ(values<int64_t>(file, "count"), count);
  EXPECT_EQ(file.find("count")->shape, Shape{});
  EXPECT_EQ(values<int32_t>(file, "i"), ints);
  EXPECT_EQ(values<uint8_t>(file, "b"), bytes);
  EXPECT_EQ(values<uint16_t>(file, "h"), std::vector<uint16_t>{0x3E00});
  EXPECT_EQ(values<uint16_t>(file, "g"), std::vector<uint16_t>{0xC000});
  EXPECT_EQ(file.find("empty")->shape, (Shape{0, 7}));
  EXPECT_EQ(file.find("none"), nullptr);
  for (const TensorInfo& info : file.tensors()) EXPECT_EQ(info.begin % size_of(info.dtype), 0U) << info.name;
}

TEST(Safetensors, DigestIsThatOfTheData) {
  const TempDir folder;
  const std::vector<SafetensorsEntry> entries{entry_of("w", {4}, kFour)};
  write_safetensors(folder.file("f"), entries, {}, true);
  std::string bytes = content(folder.file("f"));
  EXPECT_EQ(parse(bytes).metadata().at("data_sha256"), parse(bytes).data_sha256());
  EXPECT_EQ(parse(bytes).data_sha256(), "ad73b9acd6e4a74b2f5bb5386658ce3bb146cd040a1867646ab3b973fb6632b1");
  EXPECT_NO_THROW(parse(bytes).verify_sha256());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_NE(refusal([&] { parse(bytes).verify_sha256(); }).find("SHA-256"), std::string::npos);
  write_safetensors(folder.file("g"), entries);
  EXPECT_NE(refusal([&] { SafetensorsFile::open(folder.file("g")).verify_sha256(); }).find("without data_sha256"),
            std::string::npos);
}

TEST(Safetensors, ReadsForeignOrderAndSpaces) {
  const std::string header =
      "{ \"b\" : {\"shape\": [1], \"data_offsets\": [8, 16], \"dtype\": \"I64\"},\n"
      "  \"__metadata__\": {\"format\": \"pt\"}, \"a\": {\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]} } ";
  const std::string bytes = file_bytes(header, raw<float>({5, 6}) + raw<int64_t>({7}));
  const SafetensorsFile file = parse(bytes);
  EXPECT_EQ(file.tensors().front().name, "a");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_EQ(values<float>(file, "a"), (std::vector<float>{5, 6}));
  EXPECT_EQ(values<int64_t>(file, "b"), std::vector<int64_t>{7});
  EXPECT_TRUE(parse(file_bytes("{}", "")).tensors().empty());
}

TEST(Safetensors, RefusesWhatTheFormatForbids) {
  const std::string w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string deep(1'000'000, '[');
  const std::vector<std::pair<std::string, std::string>> faults{
      {"", "an empty header"},
      {" {" + w + "}", "without a brace"},
      {"[" + w + "]", "without a brace"},
      {"{" + w, "no JSON"},
      {"{" + w + "}x", "no JSON"},
      {"{" + w + "}" + std::string(3, '\0'), "no JSON"},
      {"{" + w + ",}", "no JSON"},
      {"{\"\xff\":1}", "no JSON"},
      {"{" + w + "," + w + "}", "tensor w: got its name twice"},
      {R"({"__metadata__":{},"__metadata__":{},)" + w + "}", "twice"},
      {R"({"__metadata__":{"a":"1","a":"2"},)" + w + "}", "metadata a twice"},
      {R"({"__metadata__":{"a":1},)" + w + "}", "expected text"},
      {R"({"__metadata__":{"a":{"b":"c"}},)" + w + "}", "expected text"},
      {R"({"__metadata__":"a",)" + w + "}", "expected an object"},
      {R"({"w":null})", "got null"},
      {R"({"w":true})", "a truth value"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", "got only dtype, shape"},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "dtype twice"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", "the field more"},
      {R"({"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "dtype F99"},
      {R"({"w":{"dtype":5,"shape":[1],"data_offsets":[0,4]}})", "as dtype"},
      {R"({"w":{"dtype":"F32","shape":"1","data_offsets":[0,4]}})", "as shape"},
      {R"({"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "as shape"},
      {R"({"w":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "in shape"},
      {R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "in shape"},
      {R"({"w":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "in shape"},
      {R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "more axes"},
      {R"({"w":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})", "fewer than 2^63"},
      {R"({"w":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", "an extent of"},
      {R"({"w":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", "fewer than 2^63"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1 numbers in data_offsets"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", "a third number"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", "in data_offsets"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616]}})", "in data_offsets"},
      {R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0]}})", "begin <= end"},
      {R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "1 bytes that belong to no tensor"},
      {R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,4]}})", "got 4 bytes, expected 3 for U8 [3]"},
      {R"({"w":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})", "got 4 bytes, expected 5 for U8 [5]"},
      {R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})", "a hole at byte 1"},
      {R"({"v":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       "tensor w: got an overlap"},
      {R"({"w":)" + deep, "a list"},
      {"{" + w + R"(,"__metadata__":)" + deep, "a list"},
  };
  ASSERT_NO_THROW(parse(file_bytes("{" + w + "}", "data")));
  for (const auto& [header, wanted] : faults) {
    const std::string got = refusal([&] { parse(file_bytes(header, "data")); });
    EXPECT_NE(got.find(wanted), std::string::npos) << header.substr(0, 200) << "\n  gave: " << got;
    EXPECT_EQ(got.rfind("cannot read safetensors: file: ", 0), 0U) << got;
  }
}

TEST(Safetensors, NamesInErrorsAreEscapedAndShort) {
  const std::string long_name = "x\\n" + std::string(100'000, 'y');
  const std::string got = refusal([&] { parse(file_bytes("{\"" + long_name + "\":1}", "")); });
  EXPECT_NE(got.find("tensor x\\n"), std::string::npos) << got.substr(0, 300);
  EXPECT_LT(got.size(), 400U);
}

TEST(Safetensors, EveryPrefixOfAFileIsRefused) {
  const std::string whole = content(case_path("H-CKPT-04/control.safetensors"));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(parse(whole.substr(0, length)), CheckpointError) << length;
  }
}

TEST(Safetensors, AFileThatIsCutWhileOpenIsAnError) {
  const TempDir folder;
  const std::vector<float> big(1'000'000, 1);
  const std::vector<SafetensorsEntry> entries{entry_of("w", {1'000'000}, big)};
  write_safetensors(folder.file("f"), entries, {}, true);
  const SafetensorsFile file = SafetensorsFile::open(folder.file("f"));
  fs::resize_file(folder.file("f"), 4096);
  EXPECT_NE(refusal([&] { values<float>(file, "w"); }).find("tensor w"), std::string::npos);
  EXPECT_THROW(file.verify_sha256(), CheckpointError);
}

TEST(Safetensors, OpenNamesWhatIsNoFile) {
  const TempDir folder;
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder.str(), folder.file("pipe"), folder.file("none"), std::string("/dev/zero")}) {
    EXPECT_NE(refusal([&] { SafetensorsFile::open(path); }).find(path), std::string::npos) << path;
  }
}

TEST(Safetensors, WriterRefusesMisuse) {
  const TempDir folder;
  const std::vector<SafetensorsEntry> twice{entry_of("w", {4}, kFour), entry_of("w", {4}, kFour)};
  EXPECT_THROW(write_safetensors(folder.file("f"), twice), Error);
  const std::vector<SafetensorsEntry> short_one{entry_of("w", {5}, kFour)};
  EXPECT_THROW(write_safetensors(folder.file("f"), short_one), Error);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Cases, H_CKPT_04_ControlLoads) {
  const SafetensorsFile file = SafetensorsFile::open(case_path("H-CKPT-04/control.safetensors"));
  EXPECT_EQ(file.find("w")->shape, (Shape{2, 2}));
  EXPECT_EQ(values<float>(file, "w"), kFour);
}

/// Opens what must be refused, in less than a second and 50 MB; gives the message.
std::string cheap_refusal(const fs::path& path) {
  const auto peak_bytes = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024L;
  };
  constexpr long kMostBytes = 50'000'000;
  const long before = peak_bytes();
  const auto begin = std::chrono::steady_clock::now();
  const std::string got = refusal([&] { SafetensorsFile::open(path); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << path;
  EXPECT_LT(peak_bytes() - before, kMostBytes) << path;
  return got;
}

TEST(Cases, H_CKPT_04_LengthsAndOffsetsThatLie) {
  const std::map<std::string, std::string> faults{
      {"len_2e63", "a header length of 9223372036854775808 bytes"},
      {"len_all_ones", "a header length of 18446744073709551615 bytes"},
      {"len_past_end", "a header length of 1000000 bytes, expected at most 73"},
      {"only_8_bytes", "a header length of 64 bytes, expected at most 0"},
      {"empty", "a file of 0 bytes"},
      {"cut_data", "expected begin <= end <= 10"},
      {"end_past_data", "data_offsets [0, 17], expected begin <= end <= 16"},
      {"begin_after_end", "data_offsets [16, 0]"},
      {"negative", "the number -16 in data_offsets"},
      {"shape_mismatch", "got 16 bytes, expected 24 for F32 [3, 2]"},
      {"not_json", "no JSON"}};
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(case_path("H-CKPT-04"))) {
    if (entry.path().filename() == "control.safetensors") continue;
    ++files;
    const std::string got = cheap_refusal(entry.path());
    EXPECT_NE(got.find(entry.path().string()), std::string::npos) << got;
    EXPECT_NE(got.find(faults.at(entry.path().stem())), std::string::npos) << got;
  }
  EXPECT_EQ(files, faults.size());
}

TEST(Cases, H_CKPT_04_HeaderIsBoundedInALargeFileToo) {
  const TempDir folder;
  const uint64_t length = kMaxHeaderBytes + 1;
  std::ofstream(folder.file("f"), std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof(length));
  fs::resize_file(folder.file("f"), 2 * kMaxHeaderBytes);
  EXPECT_NE(cheap_refusal(folder.file("f")).find("expected at most 100000000"), std::string::npos);
}

}  // namespace
}  // namespace engine
