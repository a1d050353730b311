#!/usr/bin/env bash
# Installs the Debian packages that the build and the tests need and that are missing. Asks nothing.
# Further package names may be given (the microbenchmarks want libbenchmark-dev). SKIPPY_NO_INSTALL=1 only checks.
set -euo pipefail

packages=(
  git npm cmake ninja-build g++ ccache mold curl ca-certificates
  python3 python3-pip python3-venv
  librust-blake3-dev libexpected-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libmuparser-dev
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libgtest-dev libgmock-dev librapidcheck-dev
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] && continue
  # A tool that stands on the PATH from elsewhere is as good as its package.
  case "$package" in
    git|npm|cmake|ccache|mold|curl|python3|g++) command -v "$package" >/dev/null && continue ;;
    ninja-build) command -v ninja >/dev/null && continue ;;
    python3-pip) python3 -m pip --version >/dev/null 2>&1 && continue ;;
    python3-venv) python3 -c 'import venv, ensurepip' 2>/dev/null && continue ;;
  esac
  missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "${SKIPPY_NO_INSTALL:-}" = 1 ] || ! command -v apt-get >/dev/null; then
  echo "Missing packages (Debian names): ${missing[*]}" >&2
  echo "Install them with your package manager and run again." >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "Run as root or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "Installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
