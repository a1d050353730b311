// The shared secret as it travels with every call.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "skippy/result.h"

namespace skippy::rpc {

inline constexpr const char* kSecretKey = "authorization";

std::string Bearer(std::string_view secret);

// kInvalidArgument: a character that cannot travel. Empty is right: there is none.
Status CheckSecret(std::string_view secret);

// In a time that does not depend on where they differ.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace skippy::rpc
