#pragma once
// Expectations on errors and what they say.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/core/error.h"

namespace engine::testing {

/// Runs f and returns the message of the E that it throws; a test failure and "" where it throws none.
template <typename E, typename F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "threw nothing";
  return "";
}

/// f throws an E whose message holds each of the parts.
template <typename E, typename F>
void ExpectError(F&& f, const std::vector<std::string>& parts) {
  const std::string message = message_of<E>(f);
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks " << part;
}

}  // namespace engine::testing
