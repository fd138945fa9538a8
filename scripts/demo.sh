#!/bin/sh
# Validate, plan and draw the road-traffic example; pipelines run with the next step of the project.
set -eu
millrace=.venv/bin/millrace
example=examples/road-traffic/pipeline.yaml
mkdir -p build
step() { printf '\n$ millrace %s\n' "$*"; "$millrace" "$@"; }
step validate "$example"
step plan "$example"
step graph "$example" --out build/road-traffic.svg
printf '\nSwap the sites file: the same pipeline, all of it in the cloud, and what that changes.\n'
step plan --from "$example" --from-profile fog "$example" --profile cloud
printf '\nOpen build/road-traffic.svg to see the pipeline.\n'
