// PEM files.
#pragma once

#include <string>
#include <string_view>

#include "skippy/result.h"

namespace skippy::rpc {

// The whole file. kInvalidArgument, naming `what` it is for: it cannot be read or is no PEM file.
Result<std::string> ReadPem(std::string_view what, const std::string& path);

}  // namespace skippy::rpc
