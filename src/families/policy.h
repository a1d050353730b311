// Which payload policy a model gets: decided by what it really holds, never by its name.
//
// Guarantees: kOff, kResidentKv or kKvRecurrent. kFullState is for certification and cannot come
// out of here. Threads: pure functions. Errors: none.
#pragma once

#include <string>

#include "skippy/memory_shape.h"

namespace skippy::families {

struct Selection {
  PayloadPolicy policy = PayloadPolicy::kOff;
  std::string reason;  // why kOff; empty otherwise
};

// off_reason: why this memory cannot be exported exactly; empty if it can. A recurrent component of
// zero bytes is none: such a model is resident_kv.
Selection SelectPolicy(const MemoryShape& shape, std::string off_reason);

// The shape in words, for models of no known family.
std::string MemoryWords(const MemoryShape& shape);
std::string GranularityWords(const MemoryShape& shape, PayloadPolicy policy);

}  // namespace skippy::families
