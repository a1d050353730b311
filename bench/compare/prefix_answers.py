"""Whether the greedy answers of a prefix_reuse cell are the same: warm as cold, and from both servers."""
from ledger import first_difference
from report.prefix import is_near_tie


def same_warm_as_cold(cell, label):
    """Of one server: {"compared": n, "equal": n}. A repeat's answer must begin the cold one."""
    compared = equal = 0
    for (key, step), by_label in cell.answers.items():
        if step.startswith("repeat/") and label in by_label:
            cold = cell.answers[key, "cold"][label]
            compared += len(cold)
            equal += sum(one.startswith(_whole(again)) for one, again in zip(cold, by_label[label]))
    return {"compared": compared, "equal": equal}


def between(cell, ours, theirs):
    """Cold and extended answers of two servers: {"compared", "equal", "partings": [{"step", "position", "gap"}]}.

    Where they part, both are asked once more for the tokens and how near the runner-up was. `position` and `gap` are
    None when the answers did not part that time: then a tie flips with the shape of a batch.
    """
    compared, equal, partings = 0, 0, []
    for (key, step), by_label in cell.answers.items():
        if step.startswith("repeat/") or ours.label not in by_label or theirs.label not in by_label:
            continue
        generated = dict((name if name == "cold" else f"{name}/{g}", g) for name, g in cell.steps)[step]
        for prompt, mine, other in zip(cell.prompts[key, step], by_label[ours.label], by_label[theirs.label]):
            compared += 1
            if mine == other:
                equal += 1
            else:
                partings.append({"step": step, **_parting(ours, theirs, prompt, generated)})
    return {"compared": compared, "equal": equal, "partings": partings}


def _parting(ours, theirs, prompt, generated):
    mine, other = (server.complete(prompt, generated, logprobs=2, ignore_eos=True) for server in (ours, theirs))
    at = first_difference(mine.tokens, other.tokens)
    return {"position": at, "gap": other.gaps[at] if at is not None and at < len(other.gaps) else None}


def wrong(answers):
    """Why the answers are not what they must be; an empty list when they are."""
    reasons = []
    warm = answers["warm as cold"]["skippy"]
    if warm["equal"] < warm["compared"] and answers["clients"] == 1:   # several share batches, which shifts near ties
        reasons.append(f"skippy's warm answers: {warm['equal']} of {warm['compared']} as its cold ones")
    far = [parting for parting in answers["between"]["partings"] if not is_near_tie(parting)]
    if far:
        reasons.append(f"{len(far)} of {answers['between']['compared']} answers part from llama-server's beyond a near "
                       f"tie, the first at token {far[0]['position']}, runner-up {far[0]['gap']} nats behind")
    return reasons


def _whole(text):
    """Without a last character that the next token would have completed."""
    return text.rstrip("\ufffd")
