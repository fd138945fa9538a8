#!/bin/sh
# All tests: the small ones side by side, with branch coverage of the package; those of them that only
# work out many cases without it, which takes a third of the time; then those that run a
# whole Spark, two at a time: with more of them Spark's Python processes start too slowly; then those
# that put sites under load, one after another. `python scripts/shares.py` says what took how long.
set -eu
rm -rf .coverage .coverage.* build/tests
status=0
none=5 # pytest's word for "no test was chosen", which happens when arguments choose a few
coverage run -m pytest -q -n "$(($(nproc) + 1))" --dist loadfile -m "not spark and not computing" --durations=25 \
  --junitxml build/tests/small.xml "$@" || status=$?
[ $status -ne $none ] || status=0
coverage combine -q
coverage report --skip-covered
python scripts/coverage_floor.py || status=1
computing=0
python -m pytest -q -n 2 -m computing --durations=10 --junitxml build/tests/computing.xml "$@" || computing=$?
[ $computing -eq 0 ] || [ $computing -eq $none ] || status=1
heavy=0
python -m pytest -q -n 2 --dist loadfile -m "spark and not alone" --durations=10 \
  --junitxml build/tests/spark.xml "$@" || heavy=$?
[ $heavy -eq 0 ] || [ $heavy -eq $none ] || status=1
alone=0
python -m pytest -q -m alone --durations=10 --junitxml build/tests/alone.xml "$@" || alone=$?
[ $alone -eq 0 ] || [ $alone -eq $none ] || status=1
exit $status
