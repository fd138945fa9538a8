#!/bin/sh
# All tests, side by side, with branch coverage of the package.
set -eu
rm -f .coverage .coverage.*
status=0
coverage run -m pytest -q -n "$(nproc)" --dist loadfile "$@" || status=$?
coverage combine -q
coverage report --skip-covered
python scripts/coverage_floor.py || status=1
exit $status
