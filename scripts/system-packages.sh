#!/bin/sh
# Install the Debian packages listed in FILE ("program package" a line) whose program is missing.
# Where that can't be done, say so and go on: the tests that need them are skipped by name.
set -u
missing=$(grep -v '^#' "$1" | while read -r program package; do
  [ -z "$program" ] || command -v "$program" >/dev/null 2>&1 || echo "$package"; done | sort -u)
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
  echo "== not installed (needs Debian and root): $(echo $missing)" >&2; exit 0
fi
echo "== installing system packages: $(echo $missing)"
for try in 1 2 3; do
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 && exit 0
  apt-get update -qq >/dev/null 2>&1
done
echo "== apt-get could not install: $(echo $missing)" >&2
