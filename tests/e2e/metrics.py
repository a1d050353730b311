"""A strict reader of the Prometheus text format: anything promtool would refuse raises ValueError."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
COMMENT = re.compile(rf"# (HELP|TYPE) ({NAME})(?: (.*))?$")
KINDS = {"counter", "gauge", "histogram", "summary", "untyped"}


def _labels(text):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        if not match:
            raise ValueError(f"bad labels: {text!r}")
        if match[1] in labels:
            raise ValueError(f"label {match[1]} twice: {text!r}")
        labels[match[1]] = match[2]
        at = match.end()
    return tuple(sorted(labels.items()))


def _value(text):
    if text in ("NaN", "+Inf", "-Inf"):
        return float(text.replace("Inf", "inf"))
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        raise ValueError(f"bad value: {text!r}")
    return float(text)


def _family(name, kinds):
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and kinds.get(base) in ("histogram", "summary"):
            return base
    return name


def _check_histogram(name, samples):
    """Buckets of each label set: cumulative, with +Inf equal to _count."""
    series = {}
    for (sample, labels), value in samples.items():
        if sample == name + "_bucket":
            rest = tuple(l for l in labels if l[0] != "le")
            series.setdefault(rest, []).append((_value(dict(labels)["le"]), value))
    if not series:
        raise ValueError(f"histogram {name} without buckets")
    for rest, buckets in series.items():
        buckets.sort()
        counts = [count for _, count in buckets]
        if counts != sorted(counts) or buckets[-1][0] != math.inf:
            raise ValueError(f"histogram {name}{rest}: buckets not cumulative or without +Inf")
        if samples.get((name + "_count", rest)) != counts[-1] or (name + "_sum", rest) not in samples:
            raise ValueError(f"histogram {name}{rest}: _count or _sum missing or different")


def parse(text):
    """{(name, ((label, value), ...)): number}, and the kinds {name: kind}."""
    if not text.endswith("\n"):
        raise ValueError("no newline at the end")
    samples, kinds, helps, closed, current = {}, {}, set(), set(), None
    for line in text.splitlines():
        if not line:
            continue
        comment = COMMENT.match(line)
        if line.startswith("#"):
            if not comment:
                raise ValueError(f"bad comment: {line!r}")
            what, name, rest = comment.groups()
            if what == "HELP":
                if name in helps:
                    raise ValueError(f"HELP of {name} twice")
                helps.add(name)
            else:
                if rest not in KINDS or name in kinds:
                    raise ValueError(f"bad or second TYPE: {line!r}")
                kinds[name] = rest
            family = name
        else:
            sample = SAMPLE.match(line)
            if not sample:
                raise ValueError(f"bad sample: {line!r}")
            family = _family(sample[1], kinds)
            if family not in kinds:
                raise ValueError(f"sample before its TYPE: {line!r}")
            key = (sample[1], _labels(sample[2] or ""))
            if key in samples:
                raise ValueError(f"series twice: {line!r}")
            samples[key] = _value(sample[3])
            if kinds[family] == "counter" and not samples[key] >= 0:
                raise ValueError(f"negative counter: {line!r}")
        if family != current:
            if family in closed:
                raise ValueError(f"lines of {family} are not together")
            if current:
                closed.add(current)
            current = family
    for name, kind in kinds.items():
        if kind == "histogram":
            _check_histogram(name, samples)
    return samples, kinds
