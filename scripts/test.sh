#!/bin/sh
# All tests: the small ones side by side, with branch coverage of the package; then those that run a
# whole Spark, two at a time: with more of them Spark's Python processes start too slowly; then those
# that put sites under load, one after another.
set -eu
rm -f .coverage .coverage.*
status=0
none=5 # pytest's word for "no test was chosen", which happens when arguments choose a few
coverage run -m pytest -q -n "$(($(nproc) + 1))" --dist loadfile -m "not spark" --durations=25 "$@" || status=$?
[ $status -ne $none ] || status=0
coverage combine -q
coverage report --skip-covered
python scripts/coverage_floor.py || status=1
heavy=0
python -m pytest -q -n 2 --dist loadfile -m "spark and not alone" --durations=10 "$@" || heavy=$?
[ $heavy -eq 0 ] || [ $heavy -eq $none ] || status=1
alone=0
python -m pytest -q -m alone --durations=10 "$@" || alone=$?
[ $alone -eq 0 ] || [ $alone -eq $none ] || status=1
exit $status
