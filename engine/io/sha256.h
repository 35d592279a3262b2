#pragma once
// SHA-256 (FIPS 180-4) of bytes that arrive in pieces; OpenSSL computes it.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace engine {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  /// The digest as 64 hexadecimal digits, lower case. Nothing may be added afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace engine
