# Millrace: every command of the project. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
CORE := .venv/.core-installed
RUN := .venv/.run-installed
DEV := .venv/.dev-installed
RUN_EXTRAS := --extra spark --extra kafka --extra mqtt --extra postgresql --extra measure --extra server
PIP := $(BIN)/python -m pip install --disable-pip-version-check --require-hashes

.PHONY: help demo check test soak bench docs lock clean
.DEFAULT_GOAL := help

help: ## list the commands
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1	\2/p' $(MAKEFILE_LIST)

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Millrace needs Python 3.11 or newer; found $$($(PYTHON) -V). Set PYTHON=..." >&2; exit 1; }
	@echo "== making .venv with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv .venv 2>/dev/null || { rm -rf .venv; sh scripts/need-venv.sh; $(PYTHON) -m venv .venv; } || \
	  { rm -rf .venv; exit 1; }

# --no-build-isolation: the pinned hatchling of core.txt builds the package, not a newer one.
$(CORE): requirements/core.txt pyproject.toml | .venv/bin/python
	@echo "== installing what millrace needs (once)"
	@$(PIP) -r requirements/core.txt
	@$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -q -e .
	@touch $@

$(RUN): requirements/run.txt $(CORE)
	@echo "== installing Spark and a client of Kafka (once; PySpark is 450 MB)"
	@$(PIP) -r requirements/run.txt
	@touch $@

$(DEV): requirements/dev.txt $(CORE)
	@echo "== installing the tools of the developers (once)"
	@$(PIP) -r requirements/dev.txt
	@touch $@

demo: $(RUN) ## run the road-traffic example for a minute, here
	@sh scripts/demo.sh

check: $(DEV) ## the static part: format, style, layers, types, generated files
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/check.sh

test: $(DEV) ## all tests that CI runs, with coverage
	@sh scripts/system-packages.sh tests/system-packages.txt
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/test.sh

soak: $(DEV) ## long seeded campaigns (SEED=, CASES=, PIPELINES=, KILLS=, CUTS=, SCRIPTS=)
	@$(BIN)/python -m pytest tests/soak -q -p no:cacheprovider --timeout 3600 -o python_files='soak_*.py'
	@PIPELINES=$(or $(PIPELINES),30) KILLS=$(or $(KILLS),10) CUTS=$(or $(CUTS),500) $(BIN)/python -m pytest -q \
	  -p no:cacheprovider --timeout 3600 tests/engines/spark/test_drawn.py tests/engines/spark/test_state_kills.py \
	  tests/engines/spark/test_joins.py tests/engines/spark/exact
	@SCRIPTS=$(or $(SCRIPTS),20) FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) $(BIN)/python -m pytest -q \
	  -p no:cacheprovider --timeout 7200 tests/changes tests/api/test_fuzz.py
	@CUT_SECONDS=60 $(BIN)/python -m pytest -q -p no:cacheprovider tests/coordinator/test_joined_agents.py -k cut_off

bench: $(DEV) ## the measurements, about three hours (JSON and pictures in build/bench; PART=latency, chains ...)
	@if [ -z "$(PART)" ]; then $(BIN)/python bench/language.py; fi
	@$(BIN)/python -m bench $(or $(PART),all)

docs: $(DEV) ## remake the generated pages, schema and pictures
	@$(BIN)/python scripts/generate.py

lock: ## resolve pyproject.toml anew into requirements/*.txt
	@$(PYTHON) -m venv build/lock && build/lock/bin/pip install -q uv
	@for set in core run dev; do \
	  build/lock/bin/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-annotate --no-header $$(case $$set in run) echo $(RUN_EXTRAS);; \
	      dev) echo $(RUN_EXTRAS) --extra flink --extra java --extra bench --extra dev;; esac) \
	    pyproject.toml requirements/build.in -o requirements/$$set.txt || exit 1; done

clean: ## remove the environment and everything made
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
