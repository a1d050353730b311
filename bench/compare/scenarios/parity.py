"""Cold requests, greedy: the same tokens from both servers, 64 of them after prompts of several lengths."""
from ledger import first_difference
from report import NEAR_TIE
from servers import Server
from text import Text

NAME, GROUP, TITLE = "parity", "parity", "same greedy answer, 64 tokens, cold"
LENGTHS = (20, 100, 250, 400, 700, 1200)   # words
TOKENS = 64


def run(bench, result):
    answers = {}
    for contestant in (bench.ours, bench.baseline):
        with Server(contestant, bench.settings_for(lanes=1)) as server:
            result.setdefault("commands", {})[contestant.label] = server.command
            answers[contestant.label] = [
                server.chat([{"role": "system", "content": Text(bench.seed, NAME, i).document(words)},
                             {"role": "user", "content": Text(bench.seed, NAME, i, "?").question()}],
                            TOKENS, logprobs=True, top_logprobs=2)
                for i, words in enumerate(LENGTHS)]
    rows = []
    for ours, theirs in zip(*answers.values()):
        at = first_difference(ours.tokens, theirs.tokens)
        gap = theirs.gaps[at] if at is not None and at < len(theirs.gaps) else None
        rows.append({"prompt_tokens": theirs.prompt_tokens, "compared": len(theirs.tokens), "first_difference": at,
                     "gap_there": gap, "near_tie": gap is not None and gap < NEAR_TIE, "cached": ours.cached})
    result["rows"] = rows
    bad = [row for row in rows if row["first_difference"] is not None and not row["near_tie"]]
    result["gate"] = {"met": not bad, "why_not": [f"parts at {row['first_difference']} with a gap of {row['gap_there']}"
                                                  for row in bad]}
