#!/usr/bin/env python3
"""Holds the #include lines of src/ and include/ against the dependency direction of ARCHITECTURE.md.

Also: every header compiles alone (--compiler), and no source file is longer than the limit.
Exits 1 and names each offending line.
"""
import argparse
import os
import re
import subprocess
import sys

# folder -> folders of ours it may include from (itself is always allowed; include/skippy is "skippy").
ALLOWED = {
    "skippy": set(),
    "base": {"skippy"},
    "cache": {"skippy", "base"},
    "families": {"skippy", "base"},
    "runtime": {"skippy", "base"},
    "pipeline": {"skippy", "base", "runtime"},
    "rpc": {"skippy", "base", "runtime", "pipeline"},
    "engine": {"skippy", "base", "runtime"},
    "llama": {"skippy", "base", "runtime", "families"},
    "fixtures": {"skippy", "base"},
    "bench": {"skippy", "base", "runtime", "engine"},
    "certify": {"skippy", "base", "runtime", "engine"},
    "stage": {"skippy", "base", "runtime", "families", "llama", "pipeline"},
    "api": {"skippy", "base", "runtime", "engine", "llama"},
    "cli": {"skippy", "base", "runtime", "engine", "llama", "families", "api", "fixtures", "certify", "bench",
            "stage", "pipeline", "rpc"},
}
# Foreign headers that only some folders may see.
FENCED = [
    (re.compile(r"^(llama[-.]|llama-.*|ggml)"), {"llama"}, "llama.cpp's own headers"),
    (re.compile(r"^gguf\.h|^ggml(-quants)?\.h"), {"llama", "fixtures", "stage"}, "gguf"),
    (re.compile(r"^(server-|chat\.h|json\.h|common\.h|sampling\.h)"), {"api", "llama"}, "llama.cpp's protocol files"),
    (re.compile(r"^(httplib|cpp-httplib)"), {"api", "cli"}, "the HTTP library"),
    (re.compile(r"^(muParser|toml\+\+)"), {"families"}, "the libraries behind family files"),
    (re.compile(r"^nlohmann/"), {"bench", "certify", "stage"}, "the JSON library"),
    (re.compile(r"^(grpc|grpcpp|google/protobuf)/|\.pb\.h$"), {"rpc"}, "gRPC and protobuf"),
    (re.compile(r"^CLI/"), {"cli", "fixtures"}, "the command line library"),
]
# The public cache headers must not see a runtime; these parts of skippy/ are for the engine's side only.
CACHE_HEADERS = re.compile(r"^skippy/(prefix_cache|cache_options|cache_stats|snapshot_planner)\.h$")
# Our own headers that only some folders may see. Moving a whole serialised state is for certification:
# that the engine and the server cannot name it is the proof that no production path does it.
OURS_FENCED = {
    "runtime/full_state.h": {"certify", "llama", "runtime"},
    "llama/full_state.h": {"llama"},
}
MAX_LINES = 700
LONG_FILES = {}  # path -> reason

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def folder_of(path):
    parts = path.split("/")
    return "skippy" if parts[0] == "include" else parts[1]


def check_file(root, path):
    problems = []
    folder = folder_of(path)
    is_test = path.endswith("_test.cc")
    lines = open(os.path.join(root, path), encoding="utf-8").read().splitlines()
    if len(lines) > MAX_LINES and path not in LONG_FILES:
        problems.append(f"{path}: {len(lines)} lines, limit {MAX_LINES}: split it or give a reason in LONG_FILES")
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1)
        where = f"{path}:{number}: includes {header}"
        target = header.split("/")[0]
        if header in OURS_FENCED and folder not in OURS_FENCED[header] and not is_test:
            problems.append(f"{where}: only {', '.join(sorted(OURS_FENCED[header]))} may include it")
        if "/" in header and target in ALLOWED:
            if target != folder and target not in ALLOWED[folder] and not is_test:
                problems.append(f"{where}: {folder} may not depend on {target}")
            if folder == "runtime" and CACHE_HEADERS.match(header):
                problems.append(f"{where}: the runtime port may not see the cache")
            continue
        for pattern, allowed, what in FENCED:
            if pattern.match(header) and folder not in allowed:
                if any(p.match(header) and folder in a for p, a, _ in FENCED):
                    continue
                problems.append(f"{where}: only {', '.join(sorted(allowed))} may include {what}")
    return problems


def check_alone(root, path, compiler):
    header = path.split("/", 1)[1]
    result = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-I", f"{root}/include", "-I", f"{root}/src", "-"],
        input=f'#include "{header}"\n#include "{header}"\n', text=True, capture_output=True)
    return [] if result.returncode == 0 else [f"{path}: does not compile alone:\n{result.stderr}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--compiler", help="also compile each core header alone with this compiler")
    args = parser.parse_args()
    problems, count = [], 0
    for top in ("include", "src"):
        for folder, _, files in os.walk(os.path.join(args.root, top)):
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), args.root)
                if not path.endswith((".h", ".cc")):
                    continue
                count += 1
                problems += check_file(args.root, path)
                if args.compiler and path.endswith(".h") and folder_of(path) in ("skippy", "base", "cache", "families", "runtime", "engine", "certify", "stage", "pipeline"):
                    problems += check_alone(args.root, path, args.compiler)
    print("\n".join(problems) if problems else f"{count} files, all within their layers")
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
