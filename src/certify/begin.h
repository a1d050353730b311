// The first and the last step of every certification. Pure but for the date.
#pragma once

#include <cstdint>
#include <vector>

#include "certify/certificate.h"
#include "runtime/runtime.h"

namespace skippy::certify {

// Everything but rows, figures and verdicts.
Certificate BeginCertificate(const runtime::RuntimeInfo& info, Mode mode, std::uint64_t seed);
// With the verdicts that its rows give for what was tried.
Certificate Concluded(Certificate certificate, const std::vector<Exactness>& tried);

}  // namespace skippy::certify
