// The lanes of evidence beside the tier matrix, and what all of them share.
//
// Each function returns finished rows: errors become kFail with the message, and what a memory or a
// setting cannot have becomes kNotApplicable with the reason.
#pragma once

#include <string>
#include <vector>

#include "certify/arena.h"
#include "certify/row.h"

namespace skippy::certify {

// One token evaluated upon a restored state: below the engine at three kinds of boundaries, and by
// the engine for both exactness settings.
std::vector<Row> SingleStepRows(Arena& arena);
std::vector<Row> EngineStepRows(Arena& arena, Exactness exactness);

// Long answers, greedy and sampled with a seed, upon hot lanes and host pages.
std::vector<Row> ContinuationRows(Arena& arena, Exactness exactness);

// Each component exported, imported elsewhere and exported again: byte for byte the same. At one
// boundary, or at all three kinds.
std::vector<Row> GridRoundTripRows(Arena& arena);
std::vector<Row> RoundTripRows(Arena& arena);

// A request served from kept state while other lanes prefill and decode. Needs two lanes.
std::vector<Row> InterleavedRows(Arena& arena, Exactness exactness);

// A prompt that leaves a few positions of the context, from kept state, generating until it is
// full.
std::vector<Row> FullContextRows(Arena& arena, Exactness exactness);

// The whole serialised state as the runtime's own library writes it; a reference, not counted.
std::vector<Row> FullStateRows(Arena& arena);

// What the files of these functions share.
Row NewRow(std::string group, std::string tier, std::string scenario, Promise promise);
Row Failed(Row row, std::string reason);
Row DoesNotApply(Row row, std::string reason);
void FillReport(Row& row, const engine::PromptReport& report);
// Decides the row by the cold answer to the same request. `sampled`: see Judge.
Status JudgeAgainstCold(Arena& arena, const Ask& ask, const Answer& answer, Row& row);
// kFail with the message, when `status` is an error.
Row Settled(Row row, const Status& status);

}  // namespace skippy::certify
