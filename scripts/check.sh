#!/bin/sh
# The static part of the house rules. Each line names itself, so that a failure is easy to place.
set -eu
step() { name=$1; shift; printf '== %s\n' "$name"; "$@"; }
step "format" ruff format --check .
step "style" ruff check .
step "layers" lint-imports --no-logo
step "types" mypy
step "size of files" python scripts/sizes.py
step "generated files" python scripts/generate.py --check
