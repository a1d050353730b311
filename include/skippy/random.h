// Random bits for seeds and identifiers. Not for secrets.
#pragma once

#include <cstdint>

namespace skippy {

// 64 bits that no other call of this process and, to all likelihood, of no other process returned.
// Threads: any. Cost: nanoseconds; the operating system is asked once a process, since its random
// device takes tens of microseconds on a virtual machine, which is felt when an answer takes less
// than a millisecond.
std::uint64_t RandomBits();

}  // namespace skippy
