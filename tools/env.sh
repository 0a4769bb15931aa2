#!/usr/bin/env bash
# Makes or reuses .venv in this checkout and installs edgekit with everything that builds and tests need, in the exact
# versions of constraints.txt. Needs Python 3.11 or newer and nothing else. Does nothing where the environment is current.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
started=$SECONDS
say() { echo "env: $*" >&2; }

# A version manager's python3.11 may exist and yet refuse to run, so ask each candidate instead of trusting its name.
find_python() {
  local candidate
  for candidate in python3.11 python3 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  say "no Python 3.11 or newer found; fix: install it (Debian: apt-get install python3.11) and run this again"
  exit 4
}

# Debian packs venv's ensurepip apart: without it `python -m venv` leaves a broken folder behind, so look first.
ensure_venv_module() {
  "$python" -c 'import ensurepip' 2>/dev/null && return
  local package
  package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $package"
    { apt-get update -qq && apt-get install -y -qq "$package"; } >&2 && return
  fi
  say "this Python has no ensurepip; fix: sudo apt-get install $package, then run this again"
  exit 4
}

# What the environment was made from. A virtual environment holds absolute paths, so its place counts too.
stamp_now() {
  "$1" - <<'PY'
import hashlib, pathlib, sys
content = b"".join(pathlib.Path(p).read_bytes() for p in ("pyproject.toml", "constraints.txt", "tools/env.sh"))
print(hashlib.sha256(content + str(pathlib.Path.cwd()).encode() + sys.version.encode()).hexdigest())
PY
}

install_all() {
  local uv=.venv/bin/uv
  # uv links files from its cache into the environment: seconds instead of minutes, and hardly any disk.
  if [ ! -x "$uv" ] && ! .venv/bin/python -m pip install --quiet -c constraints.txt uv >&2; then
    uv="$(command -v uv || true)"
  fi
  if [ -n "$uv" ] && "$uv" pip install --python .venv/bin/python -c constraints.txt -e ".[build,dev]" >&2; then
    return
  fi
  # pip reads settings that uv does not, such as a company mirror in pip.conf, so it may succeed where uv failed.
  say "uv did not succeed, trying pip"
  .venv/bin/python -m pip install -c constraints.txt -e ".[build,dev]" >&2
}

if [ -x .venv/bin/python ] && [ -f .venv/edgekit-stamp ] && [ "$(cat .venv/edgekit-stamp)" = "$(stamp_now .venv/bin/python)" ]; then
  say "current"
  exit 0
fi
python="$(find_python)"
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  ensure_venv_module
  say "making .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
fi
say "installing edgekit[build,dev]"
install_all
stamp_now .venv/bin/python >.venv/edgekit-stamp
say "ready after $((SECONDS - started)) s"
