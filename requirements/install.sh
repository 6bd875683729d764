#!/bin/sh
# Makes .venv and installs the lock and the project into it. Needs only Python; `make` calls it.
set -eu
cd "$(dirname "$0")/.."
venv=.venv

is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

can_make_environments() {
  "$1" -c 'import ensurepip, venv' 2>/dev/null
}

explain() {
  if [ -n "$1" ]; then
    echo "xmcloud: $1 cannot make virtual environments: its venv or ensurepip module is missing."
    echo "  Debian, Ubuntu:  apt-get install python3-venv"
  else
    echo "xmcloud needs Python 3.11 or newer; tried: $candidates"
    echo "  Debian, Ubuntu:  apt-get install python3 python3-venv"
  fi
  echo "  macOS:           brew install python@3.13"
  echo "  another one:     make PYTHON=/path/to/python3.12"
}

find_python() {
  incomplete=
  for candidate in $candidates; do
    is_new_enough "$candidate" || continue
    if can_make_environments "$candidate"; then
      echo "$candidate"
      return
    fi
    incomplete=${incomplete:-$candidate}
  done
  explain "$incomplete" >&2
  return 1
}

candidates=${PYTHON:-python3 python3.13 python3.12 python3.11}
if ! is_new_enough $venv/bin/python || ! $venv/bin/python -m pip --version >/dev/null 2>&1; then
  python=$(find_python)
  "$python" -m venv --clear $venv
fi

pip="$venv/bin/python -m pip --disable-pip-version-check"
awk '/^uv==/ { found = 1 } found { print; if (!/\\$/) exit }' requirements/dev.lock >$venv/uv.txt
$pip install --quiet --require-hashes --no-deps --requirement $venv/uv.txt

# uv does not read pip's settings: where pip has been pointed at a mirror, uv follows.
if [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
  mirror=${PIP_INDEX_URL:-$($pip config get global.index-url 2>/dev/null || true)}
  if [ -n "$mirror" ]; then
    export UV_DEFAULT_INDEX="$mirror"
  fi
fi
export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}"

uv="$venv/bin/uv --quiet pip"
$uv sync --python $venv/bin/python --require-hashes requirements/dev.lock
$uv install --python $venv/bin/python --no-deps --no-build-isolation --editable .
