#!/bin/sh
# Debian keeps Python's venv in a package of its own: install it where that is allowed.
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "== installing python3-venv"
  apt-get install -y -qq python3-venv >/dev/null 2>&1 ||
    { apt-get update -qq >/dev/null 2>&1; apt-get install -y -qq python3-venv >/dev/null 2>&1; }
else
  echo "This Python can't make virtual environments; on Debian: apt-get install python3-venv" >&2
fi
