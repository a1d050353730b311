// A certificate for people: a table for a terminal, and Markdown. Pure.
#pragma once

#include <string>

#include "certify/certificate.h"

namespace skippy::certify {

// Rows that pass are counted by group and tier; those that fail, flip a tie or do not apply are
// told one by one. `every_row`: all of them one by one.
std::string TextReport(const Certificate& certificate, bool every_row);
std::string MarkdownReport(const Certificate& certificate);

// "bit", "token (2 ties)", "fail", "not tried".
std::string VerdictText(const Certificate& certificate, Exactness exactness);

}  // namespace skippy::certify
