#pragma once
// How engine_train writes JSON.

#include <nlohmann/json.hpp>
#include <string>

namespace engine {

/// One object on one line, keys in the order given. Ill-formed UTF-8 becomes U+FFFD, numbers that are not finite null.
inline std::string json_text(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace engine
