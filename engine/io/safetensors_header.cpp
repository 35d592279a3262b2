#include "engine/io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "engine/core/error.h"

namespace engine::detail {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::array<std::pair<DType, const char*>, 7> kTypes{{{DType::f64, "F64"},
                                                               {DType::f32, "F32"},
                                                               {DType::f16, "F16"},
                                                               {DType::bf16, "BF16"},
                                                               {DType::i64, "I64"},
                                                               {DType::i32, "I32"},
                                                               {DType::u8, "U8"}}};

/// Follows the tokens of the header, whose grammar is fixed to three levels, and refuses the first one out of place.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(uint64_t data_bytes, const std::string& path, SafetensorsHeader& header)
      : data_bytes_(data_bytes), path_(path), header_(header) {}

  bool null() override { misplaced("null"); }
  bool boolean(bool) override { misplaced("a truth value"); }
  bool number_integer(number_integer_t value) override { misplaced(fmt::format("the number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override { misplaced("the number " + shown(text)); }
  bool binary(binary_t&) override { misplaced("bytes"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (shape_.size() == Shape::kMaxRank) refuse("more axes", fmt::format("at most {}", Shape::kMaxRank));
      if (value > static_cast<uint64_t>(INT64_MAX)) refuse(fmt::format("an extent of {}", value), "less than 2^63");
      shape_.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::offsets) {
      if (offsets_.size() == 2) refuse("a third number in data_offsets", "two");
      offsets_.push_back(value);
    } else {
      misplaced(fmt::format("the number {}", value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, value).second) refuse("metadata " + shown(key_) + " twice", "once");
    } else if (place_ == Place::tensor && key_ == "dtype") {
      const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.second == value; });
      if (type == kTypes.end()) refuse("dtype " + shown(value), "F64, F32, F16, BF16, I64, I32 or U8");
      dtype_ = type->first;
    } else {
      misplaced("the text \"" + shown(value) + "\"");
    }
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = name_ == kMetadataKey ? Place::metadata : Place::tensor;
      fields_.clear();
      shape_.clear();
      offsets_.clear();
      dtype_.reset();
    } else {
      misplaced("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::top) {
      name_ = value;
      if (!names_.insert(value).second) refuse("its name twice", "once");
    } else {
      key_ = value;
      if (place_ == Place::tensor) tensor_field(value);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) finish_tensor();
    place_ = place_ == Place::top ? Place::start : Place::top;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::tensor || (key_ != "shape" && key_ != "data_offsets")) misplaced("a list");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse_safetensors(path_, "", fmt::format("a header that is no JSON at its byte {}", position),
                       "a JSON object in UTF-8");
  }

 private:
  enum class Place { start, top, metadata, tensor, shape, offsets };

  [[noreturn]] void refuse(const std::string& got, const std::string& expected) const {
    refuse_safetensors(path_, place_ == Place::metadata ? "" : shown(name_), got, expected);
  }

  [[noreturn]] void misplaced(const std::string& got) const {
    switch (place_) {
      case Place::metadata:
        refuse(got + " under metadata " + shown(key_), "text");
      case Place::shape:
        refuse(got + " in shape", "whole numbers from 0 on");
      case Place::offsets:
        refuse(got + " in data_offsets", "whole numbers from 0 on");
      case Place::tensor:
        refuse(got + " as " + shown(key_), "a text as dtype, lists as shape and data_offsets");
      default:
        refuse(got, "an object");
    }
  }

  void tensor_field(const std::string& field) {
    if (field != "dtype" && field != "shape" && field != "data_offsets") {
      refuse("the field " + shown(field), "dtype, shape and data_offsets");
    }
    if (std::find(fields_.begin(), fields_.end(), field) != fields_.end()) refuse(field + " twice", "once");
    fields_.push_back(field);
  }

  void finish_tensor() {
    if (!dtype_ || fields_.size() != 3) {
      refuse(fmt::format("only {}", fmt::join(fields_, ", ")), "dtype, shape and data_offsets");
    }
    if (offsets_.size() != 2) refuse(fmt::format("{} numbers in data_offsets", offsets_.size()), "two");
    const uint64_t begin = offsets_[0], end = offsets_[1];
    if (begin > end || end > data_bytes_) {
      refuse(fmt::format("data_offsets [{}, {}]", begin, end),
             fmt::format("begin <= end <= {}, the bytes behind the header", data_bytes_));
    }
    const std::string shape = fmt::format("[{}]", fmt::join(shape_, ", "));
    // Multiplied even behind an extent of 0, since Shape refuses what does not fit then, too.
    uint64_t product = 1, bytes = 0;
    bool fits = true;
    for (const int64_t extent : shape_) {
      fits = fits && !__builtin_mul_overflow(product, static_cast<uint64_t>(extent), &product) && product <= INT64_MAX;
    }
    fits = fits && !__builtin_mul_overflow(product, size_of(*dtype_), &bytes);
    if (!fits) refuse(fmt::format("shape {}", shape), "fewer than 2^63 bytes");
    if (bytes != end - begin) {
      refuse(fmt::format("{} bytes", end - begin),
             fmt::format("{} for {} {}", bytes, safetensors_name(*dtype_), shape));
    }
    header_.tensors.push_back({name_, *dtype_, Shape(std::span<const int64_t>(shape_)), begin, end});
  }

  uint64_t data_bytes_;
  const std::string& path_;
  SafetensorsHeader& header_;
  Place place_ = Place::start;
  std::unordered_set<std::string> names_;
  std::string name_;
  std::string key_;
  std::vector<std::string> fields_;
  std::vector<int64_t> shape_;
  std::vector<uint64_t> offsets_;
  std::optional<DType> dtype_;
};

void check_cover(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& path) {
  uint64_t covered = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin != covered) {
      refuse_safetensors(path, shown(tensor.name),
                         fmt::format("{} at byte {}", tensor.begin < covered ? "an overlap" : "a hole", tensor.begin),
                         fmt::format("its first byte at {}", covered));
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    refuse_safetensors(path, "", fmt::format("{} bytes that belong to no tensor", data_bytes - covered), "none");
  }
}

}  // namespace

void refuse_safetensors(const std::string& path, const std::string& tensor, const std::string& got,
                        const std::string& expected) {
  throw CheckpointError(fmt::format("cannot read safetensors: {}: {}got {}, expected {}", path,
                                    tensor.empty() ? "" : "tensor " + tensor + ": ", got, expected),
                        "the file is damaged or no safetensors file; copy or write it again");
}

std::string shown(std::string_view text) {
  constexpr size_t kLongest = 120;
  return text.size() <= kLongest ? escaped(text) : escaped(text.substr(0, kLongest)) + "...";
}

const char* safetensors_name(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.first == dtype; })->second;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes, const std::string& path) {
  SafetensorsHeader header;
  if (!text.starts_with('{')) {
    refuse_safetensors(path, "", text.empty() ? "an empty header" : "a header without a brace", "a JSON object");
  }
  // To nlohmann's lexer a zero byte is the end, whatever stands behind it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    refuse_safetensors(path, "", fmt::format("a header that is no JSON at its byte {}", zero),
                       "a JSON object in UTF-8");
  }
  HeaderReader reader(data_bytes, path, header);
  nlohmann::json::sax_parse(text, &reader);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(header, data_bytes, path);
  return header;
}

}  // namespace engine::detail
