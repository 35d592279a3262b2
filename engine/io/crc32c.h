#pragma once
// CRC32C (Castagnoli), the checksum of TFRecord files: reflected polynomial 0x82F63B78, start and final inversion as
// RFC 3720 section 12.1 defines it; the CRC of "123456789" is 0xE3069283.

#include <cstddef>
#include <cstdint>
#include <span>

namespace engine {

uint32_t crc32c(std::span<const std::byte> bytes);

/// The CRC rotated right by 15 bits plus 0xA282EAD8, as TFRecord stores it.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace engine
