#include "engine/io/sha256.h"

#include <openssl/evp.h>

#include "engine/core/error.h"

namespace engine {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  ENGINE_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
               "[sha256] OpenSSL cannot compute SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  ENGINE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "[sha256] OpenSSL failed");
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  ENGINE_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1, "[sha256] OpenSSL failed");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace engine
