"""What holds for any pipeline; `test_fuzz` has what holds for any file."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.model import Pipeline
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.spec import load_text
from millrace.spec.schema import schema
from millrace.spec.yaml_writer import write_yaml
from millrace.wire import pipeline_document
from tests.strategies import pipelines

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
EXAMPLES = Path(__file__).parents[2] / "examples"
CHECKER = jsonschema.Draft202012Validator(schema())


@settings(max_examples=150, suppress_health_check=SLOW)
@given(pipelines())
def test_export_then_load_is_the_identity(pipeline: Pipeline) -> None:
    document = pipeline_document(pipeline)
    loaded = load_text(write_yaml(document))
    assert loaded.diagnostics == ()
    assert loaded.pipeline == pipeline
    assert pipeline_document(loaded.required()) == document


@settings(max_examples=60, suppress_health_check=SLOW)
@given(pipelines())
def test_the_same_holds_for_json_and_the_schema_accepts_it(pipeline: Pipeline) -> None:
    document = pipeline_document(pipeline)
    assert load_text(json.dumps(document)).pipeline == pipeline
    CHECKER.validate(document)


@settings(max_examples=60, suppress_health_check=SLOW)
@given(pipelines(), st.randoms(use_true_random=False))
def test_another_order_is_no_change(pipeline: Pipeline, chance: random.Random) -> None:
    document = pipeline_document(pipeline)
    for section in ("sites", "pilots", "streams", "jobs"):
        items = list(document.get(section, {}).items())
        chance.shuffle(items)
        if items:
            document[section] = dict(items)
    shuffled = load_text("# a comment\n" + write_yaml(dict(reversed(document.items()))))
    assert plan(shuffled.required(), Observed(pipeline), {}).empty


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=str)
def test_the_schema_accepts_every_example(path: Path) -> None:
    CHECKER.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "document",
    [
        {"job": {}},
        {"jobs": {"a": {"form": "x"}}},
        {"streams": {"a": {"partitions": "many"}}},
        {"streams": {"a": {"format": "xml"}}},
        {"jobs": {"a": {"window": {"of": "ten"}}}},
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(document: dict[str, object]) -> None:
    assert not CHECKER.is_valid(document)
    assert load_text(write_yaml({"pipeline": "p", **document})).pipeline is None


def test_the_schema_takes_expressions_wherever_values_stand() -> None:
    CHECKER.validate(
        {
            "streams": {
                "a-${{ i }}": {
                    "for": {"i": "${{ range(3) }}"},
                    "partitions": "${{ n }}",
                    "format": "${{ f }}",
                    "schema": "${{ s }}",
                    "transient": "${{ t }}",
                }
            },
            "jobs": {
                "j": {
                    "from": ["${{ x }}"],
                    "window": "${{ w }}",
                    "replicas": "${{ 1 }}",
                    "checkpoint": {"every": "${{ e }}"},
                }
            },
        }
    )
