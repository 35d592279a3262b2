#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "engine/core/error.h"

namespace engine::data {
namespace {

constexpr size_t kChunk = size_t{1} << 16;

[[noreturn]] void fail(const std::string& name, const std::string& got) {
  throw DataError(
      fmt::format("[gzip] cannot unpack: {}: got {}, expected a whole, undamaged gzip file", escaped(name), got),
      "an interrupted download looks like this; fetch the file again");
}

struct Inflater {
  z_stream stream{};
  Inflater() {
    constexpr int kGzipWindow = 15 + 16;
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw OutOfMemoryError("[gzip] no memory for zlib");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

bool is_gzip(std::span<const uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B; }

std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, const std::string& name, size_t limit) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::vector<uint8_t> out, chunk(kChunk);
  size_t taken = 0;
  while (true) {
    if (stream.avail_in == 0) {
      const size_t piece = std::min(bytes.size() - taken, kChunk);
      stream.next_in = const_cast<Bytef*>(bytes.data() + taken);
      stream.avail_in = static_cast<uInt>(piece);
      taken += piece;
    }
    stream.next_out = chunk.data();
    stream.avail_out = static_cast<uInt>(chunk.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    out.insert(out.end(), chunk.data(), stream.next_out);
    if (out.size() > limit) fail(name, fmt::format("more than {} bytes", limit));
    if (status == Z_STREAM_END) {
      const size_t at = taken - stream.avail_in;
      if (at == bytes.size()) return out;
      if (!is_gzip(bytes.subspan(at))) fail(name, fmt::format("{} bytes behind the end", bytes.size() - at));
      inflateReset(&stream);
    } else if (status == Z_BUF_ERROR ||
               (status == Z_OK && stream.avail_in == 0 && taken == bytes.size() && stream.avail_out > 0)) {
      fail(name, fmt::format("a file that ends after {} bytes of data", out.size()));
    } else if (status != Z_OK) {
      fail(name, fmt::format("\"{}\"", stream.msg != nullptr ? stream.msg : "damaged data"));
    }
  }
}

}  // namespace engine::data
