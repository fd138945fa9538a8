"""What holds for any pipeline and any text."""

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
from millrace.spec import FileFormat, Loaded, load_text
from millrace.spec.schema import schema
from millrace.spec.yaml_writer import write_yaml
from millrace.wire import pipeline_document
from tests.conftest import FIXTURES
from tests.strategies import pipelines

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = [
    path.read_text() for path in (*sorted(FIXTURES.iterdir()), *sorted(EXAMPLES.rglob("*.yaml")))
]
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


def tame(loaded: Loaded) -> None:
    """A load gives a pipeline or problems, and every problem has a message."""
    assert loaded.pipeline is not None or any(item.message for item in loaded.diagnostics)
    for item in loaded.diagnostics:
        assert item.at is None or (item.at.line >= 1 and item.at.column >= 1)


@settings(max_examples=400, suppress_health_check=SLOW)
@given(st.text(max_size=200), st.sampled_from([None, *FileFormat]))
def test_random_texts_only_give_diagnostics(text: str, file_format: FileFormat | None) -> None:
    tame(load_text(text, file_format=file_format))


BITS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "\n",
    "  ",
    "${{",
    "}}",
    "'",
    '"',
    "&a ",
    "*a",
    "!x ",
    "|\n",
    "~",
    "0",
    "-1",
    "1e9",
    "null",
    "true",
    "for: ",
    "jobs:",
    "from: ",
    "#",
    "//",
    "/*",
    "$x",
    ",",
    "\t",
    "é",
    "\x00",
    "[[[[",
    "x" * 300,
    "range(9)",
    "streams.a.b",
    "include: ",
    "<<: ",
]


def mutated(text: str, chance: random.Random) -> str:
    """Return a text with a few cuts, copies and foreign bits."""
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 1, 3, 10, 60]))
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:start] + chance.choice(BITS) + text[end:]
        elif kind == 1:
            text = text[:start] + text[end:]
        elif kind == 2:
            text = text[:end] + text[start:]
        else:
            other = chance.randrange(len(text) + 1)
            text = text[:start] + text[other : other + 30] + text[end:]
    return text


@settings(max_examples=1200, suppress_health_check=SLOW)
@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False))
def test_mutated_documents_only_give_diagnostics(text: str, chance: random.Random) -> None:
    tame(load_text(mutated(text, chance), "seed"))


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**65), 2**65),
        st.floats(),
        st.sampled_from(["", "a", "10 s", "${{ 1 }}", "${{ x", "spark", "local", "raw"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "a",
                    "from",
                    "to",
                    "sql",
                    "site",
                    "for",
                    "kind",
                    "stream",
                    "group",
                    "options",
                    "broker",
                    "job_name",
                    "streams",
                    "jobs",
                    "window",
                    "every",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
TOP = [
    "pipeline",
    "include",
    "constants",
    "profiles",
    "profile",
    "defaults",
    "groups",
    "sites",
    "pilots",
    "streams",
    "jobs",
    "description",
    "nope",
]


@settings(max_examples=600, suppress_health_check=SLOW)
@given(st.dictionaries(st.sampled_from(TOP), VALUES, max_size=6))
def test_documents_of_any_shape_only_give_diagnostics(document: dict[str, object]) -> None:
    tame(load_text(write_yaml(document)))


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
