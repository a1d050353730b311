#!/usr/bin/env python3
"""Exits 1 unless the families named are those that `skippy fixtures` writes. Usage: check_families.py SKIPPY NAME..."""
import subprocess
import sys

listed = subprocess.run([sys.argv[1], "fixtures", "--list"], check=True, capture_output=True, text=True).stdout
written, named = {line.split()[0] for line in listed.splitlines() if line.strip()}, set(sys.argv[2:])
for name in sorted(written - named):
    print(f"{name} is written and not certified by a test")
for name in sorted(named - written):
    print(f"{name} is not written")
sys.exit(written != named)
