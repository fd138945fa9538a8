#!/bin/sh
# Run the road-traffic example for a minute, on this machine: 17 jobs on one Kafka and one Spark.
set -eu
millrace=.venv/bin/millrace
example=examples/road-traffic
home=build/demo
mkdir -p build
rm -rf "$home"
printf '$ millrace run %s/pipeline.yaml --profile laptop\n' "$example"
"$millrace" run "$example/pipeline.yaml" --profile laptop --home "$home" &
run=$!
trap 'kill -TERM $run 2>/dev/null; wait $run' EXIT
.venv/bin/python "$example/demo.py" --home "$home" --out build/road-traffic.png
printf '\nOpen build/road-traffic.png to see the traffic.\n'
