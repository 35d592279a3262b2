#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jpeglib.h>

#include <jerror.h>

#include "data/decoders.h"
#include "engine/core/error.h"

namespace engine::data {
namespace {

/// A progressive file of a few bytes can ask for any number of passes over a large picture.
constexpr int kMaxScans = 500;

/// libjpeg leaves by longjmp, which must not cross C++ objects: everything between setjmp and longjmp lives here.
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = "";

  Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->message);
  std::longjmp(decoder->escape, 1);
}

/// Warnings which mean that pixels are missing or made up.
bool is_damage(int code) {
  switch (code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      return true;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && is_damage(info->err->msg_code)) leave(info);
}

void on_progress(j_common_ptr info) {
  auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= kMaxScans) return;
  auto* decoder = static_cast<Decoder*>(info->client_data);
  std::snprintf(decoder->message, sizeof decoder->message, "more than %d scans", kMaxScans);
  std::longjmp(decoder->escape, 1);
}

void set_up(Decoder& decoder) {
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.info.client_data = &decoder;
  decoder.errors.error_exit = leave;
  decoder.errors.emit_message = on_message;
  decoder.progress.progress_monitor = on_progress;
}

bool read_header(Decoder& decoder, const uint8_t* bytes, size_t size) {
  if (setjmp(decoder.escape) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, bytes, static_cast<unsigned long>(size));
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

bool read_pixels(Decoder& decoder, uint8_t* pixels, size_t row_bytes) {
  if (setjmp(decoder.escape) != 0) return false;
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW rows[16];
    for (size_t i = 0; i < 16; ++i) rows[i] = pixels + (decoder.info.output_scanline + i) * row_bytes;
    jpeg_read_scanlines(&decoder.info, rows, std::min(16U, decoder.info.output_height - decoder.info.output_scanline));
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

/// In place: four stored inks to three colours.
void cmyk_to_rgb(Image& image, bool inverted) {
  const size_t count = image.pixels.size() / 4;
  const unsigned flip = inverted ? 0 : 255;
  uint8_t* pixels = image.pixels.data();
  for (size_t i = 0; i < count; ++i) {
    const unsigned key = pixels[4 * i + 3] ^ flip;
    for (size_t c = 0; c < 3; ++c) {
      pixels[3 * i + c] = static_cast<uint8_t>(((pixels[4 * i + c] ^ flip) * key + 127) / 255);
    }
  }
  image.pixels.resize(3 * count);
  image.channels = 3;
}

}  // namespace

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image) {
  Decoder decoder;
  set_up(decoder);
  const auto fail = [&] {
    fail_image(name, fmt::format("a JPEG with \"{}\"", escaped(decoder.message)), "a whole, undamaged JPEG");
  };
  if (!read_header(decoder, bytes.data(), bytes.size())) fail();
  jpeg_decompress_struct& info = decoder.info;
  check_image_size(info.image_width, info.image_height, name, options);

  const bool inks = info.num_components == 4;
  const bool gray = info.num_components == 1 && options.mode == ImageMode::gray;
  info.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
  const int channels = inks ? 4 : gray ? 1 : 3;
  image.reshape(static_cast<int>(info.image_height), static_cast<int>(info.image_width), channels);
  if (!read_pixels(decoder, image.pixels.data(), size_t{info.image_width} * static_cast<size_t>(channels))) fail();

  if (inks) cmyk_to_rgb(image, info.saw_Adobe_marker != FALSE);
  convert(image, options.mode);
}

}  // namespace engine::data
