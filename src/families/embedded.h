// The files of families/ as text; embed.cmake writes the definition.
#pragma once

#include <span>

#include "families/family.h"

namespace skippy::families {

std::span<const SourceFile> EmbeddedFiles();

}  // namespace skippy::families
