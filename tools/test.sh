#!/usr/bin/env bash
# Environment, lint, types, then the whole test suite; arguments go to pytest, e.g. `tools/test.sh -m "not slow"`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash tools/env.sh
# Tests that build real networks share one store, so each network is built once.
export EDGEKIT_STORE="${EDGEKIT_STORE:-$PWD/.edgekit/store}"
.venv/bin/ruff check --quiet .
.venv/bin/mypy --no-error-summary
exec .venv/bin/python -m pytest "$@"
