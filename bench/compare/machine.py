"""What was measured on what: machine, commits, model file; and how busy the machine was meanwhile."""
import hashlib
import os
import platform
import re
import struct
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")


def describe_machine():
    cpu = re.search(r"model name\s*:\s*(.+)", _read("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", _read("/proc/meminfo"))
    return {
        "cpu": cpu.group(1) if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "memory_mib": int(memory.group(1)) // 1024 if memory else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_at_start": os.getloadavg()[0],
    }


def commit_of(folder):
    """The checkout's commit, with "+changes" when tracked files differ from it; None outside a checkout."""
    def git(*arguments):
        return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout
    try:
        return git("rev-parse", "HEAD").strip() + ("+changes" if git("status", "--porcelain", "-uno").strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def version_of(binary):
    try:
        run = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line for line in (run.stdout + run.stderr).splitlines() if any(word in line for word in ("version", "commit", "skippy "))]
    return lines[0].strip() if lines else None


def llama_commit_of(version):
    """llama.cpp's commit in what a binary says of its version, "b1-de3ff81", "commit de3ff81" or "(de3ff81)"; or None."""
    found = re.search(r"(?:\bb\d+-|\bcommit |\()([0-9a-f]{7,40})\b", version or "")
    return found.group(1) if found else None


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def describe_model(path):
    facts = _gguf_strings(path, ("general.architecture", "general.name"))
    return {
        "file": os.path.basename(path),
        "bytes": os.path.getsize(path),
        "sha256": sha256_of(path),
        "architecture": facts.get("general.architecture", "unknown"),
        "name": facts.get("general.name", ""),
    }


class Activity:
    """CPU time that neither we nor the servers used since construction: other people's work on this machine."""

    def __init__(self, pids):
        self._pids = [os.getpid(), *pids]
        self.started = time.monotonic()
        self._start = self._now()

    def _now(self):
        fields = [int(n) for n in _read("/proc/stat").splitlines()[0].split()[1:]]
        busy = fields[0] + fields[1] + fields[2] + fields[5] + fields[6]
        return time.monotonic(), busy, fields[7], sum(cpu_ticks(pid) for pid in self._pids)

    def cores_used_by_others(self):
        start, end = self._start, self._now()
        seconds = max(end[0] - start[0], 1e-9)
        others = (end[1] - start[1]) - (end[3] - start[3]) + (end[2] - start[2])
        return max(0.0, others / TICKS / seconds)


def cpu_seconds(pid):
    """CPU time of a process and all its threads, ended ones too, to the nanosecond (the clock of clock_getcpuclockid(3))."""
    scheduled = 2   # CPUCLOCK_SCHED
    return time.clock_gettime((~pid << 3) | scheduled)


def cpu_ticks(pid):
    try:
        fields = _read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0
    return int(fields[11]) + int(fields[12])


def resident_bytes(pid):
    status = _read(f"/proc/{pid}/status")
    now = re.search(r"VmRSS:\s*(\d+)", status)
    peak = re.search(r"VmHWM:\s*(\d+)", status)
    return {"now": int(now.group(1)) * 1024 if now else 0, "peak": int(peak.group(1)) * 1024 if peak else 0}


def _read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


_GGUF_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def _gguf_strings(path, wanted):
    """The named string values among a GGUF's metadata; empty when the file is not a GGUF."""
    found = {}
    with open(path, "rb") as file:
        def number(layout):
            return struct.unpack("<" + layout, file.read(struct.calcsize(layout)))[0]

        def text():
            return file.read(number("Q"))

        def skip(kind):
            if kind == 8:
                text()
            elif kind == 9:
                inner, count = number("I"), number("Q")
                if inner in _GGUF_FIXED:
                    file.seek(_GGUF_FIXED[inner] * count, os.SEEK_CUR)
                else:
                    for _ in range(count):
                        skip(inner)
            else:
                file.seek(_GGUF_FIXED[kind], os.SEEK_CUR)

        try:
            if file.read(4) != b"GGUF":
                return {}
            number("I")
            number("Q")
            for _ in range(number("Q")):
                key, kind = text().decode("utf-8", "replace"), number("I")
                if key in wanted and kind == 8:
                    found[key] = text().decode("utf-8", "replace")
                    if len(found) == len(wanted):
                        break
                else:
                    skip(kind)
        except (struct.error, KeyError):
            pass
    return found
