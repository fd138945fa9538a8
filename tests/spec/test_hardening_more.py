"""More inputs that once hung or were misunderstood: references, balance, circles."""

from __future__ import annotations

import pytest

from millrace.spec import load_text
from millrace.spec.cycles import circle_of

HEAD = "pipeline: p\nsites: {l: {broker: kafka}}\n"
NAMES = "".join(f"  c{n}: 1\n" for n in range(4000))

HUNG_ONCE = {
    "names copied": HEAD + "constants:\n" + NAMES + "streams: {raw: {partitions: 2}}\n"
    'jobs: {"a-${{ i }}": {for: {i: "${{ range(4000) }}"}, from: raw, sql: x, '
    'replicas: "${{ streams.raw.partitions }}"}}',
    "long chain of letters": HEAD
    + "streams:\n"
    + "".join(f"  s{n}: {{dead_letters: s{n + 1}}}\n" for n in range(3000))
    + "  s3000: {}\n"
    "jobs: {a: {from: s0, sql: x}}",
    "many sources": HEAD
    + """
streams:
  "s-${{ i }}": {for: {i: "${{ range(801) }}"}}
  "q-${{ i }}": {for: {i: "${{ range(800) }}"}}
jobs:
  "b-${{ i }}": {for: {i: "${{ range(800) }}"}, from: {stream: "q-${{ i }}", consumes: 1},
                 to: {stream: s-0, produces: 1}, sql: x}
  "a-${{ i }}": {for: {i: "${{ range(800) }}"}, from: {stream: "s-${{ i }}", consumes: 1},
                 to: {stream: "s-${{ i + 1 }}", produces: 1}, sql: x}
""",
    "large numbers": HEAD
    + """
streams: {"s-${{ i }}": {for: {i: "${{ range(4001) }}"}}}
jobs:
  "a-${{ i }}": {for: {i: "${{ range(4000) }}"}, sql: x,
                 from: {stream: "s-${{ i }}", consumes: 2305843009213693951},
                 to: {stream: "s-${{ i + 1 }}", produces: 4611686018427387847}}
""",
    "many writers": HEAD
    + """
streams: {s: {}, q: {}}
jobs:
  "b-${{ i }}": {for: {i: "${{ range(5000) }}"}, from: q, every: 1 s,
                 to: {stream: s, produces: 1}, sql: x}
  a: {from: {stream: s, consumes: 1}, sql: x}
""",
    "failed references": HEAD + "streams: {raw: {}}\n"
    'jobs: {"a-${{ i }}": {for: {i: "${{ range(12000) }}"}, from: raw, sql: x, '
    'replicas: "${{ jobs.nope.replicas }}"}}',
}


@pytest.mark.timeout(90)
@pytest.mark.parametrize("name", HUNG_ONCE)
def test_what_hung_once_comes_to_an_end(name: str) -> None:
    loaded = load_text(HUNG_ONCE[name])
    assert loaded.pipeline is not None or loaded.diagnostics


def sql(expression: str, constants: str = "{}") -> str:
    text = (
        HEAD
        + f"constants: {constants}\nstreams: {{raw: {{partitions: 2, topic: north, key: k}}}}\n"
    )
    text += 'jobs: {j: {from: raw, sql: "x${{ ' + expression + ' }}"}}'
    return str(load_text(text).required().jobs["j"].sql)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("streams.raw.partitions + conf.jobs.n", "x5"),
        ("conf.jobs.n", "x3"),
        ("[{'partitions': 5}].map(streams, streams.partitions)[0]", "x5"),
        ("streams.raw.topic.startsWith('nor')", "xtrue"),
        ("streams.raw.topic.size()", "x5"),
        ("size(streams.raw.key)", "x1"),
        ("has(streams.raw.port)", "xfalse"),
        ("has(streams.raw.topic)", "xtrue"),
    ],
)
def test_references_are_told_from_what_looks_like_them(expression: str, value: str) -> None:
    assert sql(expression, "{conf: {jobs: {n: 3}}}") == value


def test_a_field_in_brackets_is_told() -> None:
    text = HEAD + "streams: {raw: {partitions: \"${{ streams.raw['port'] }}\"}}"
    assert "named by a dot" in load_text(text).diagnostics[0].message


def test_dead_letters_are_writers_of_unknown_rate() -> None:
    text = (
        HEAD
        + """
streams: {x: {dead_letters: d, rate: 10/s}, d: {rate: 10/s}, m: {}}
jobs:
  a: {from: {stream: x, consumes: 1}, to: {stream: m, produces: 1}, sql: x}
  e: {from: {stream: x, consumes: 1}, to: {stream: d, produces: 1}, sql: x}
  b: {from: [{stream: m, consumes: 1}, {stream: d, consumes: 2}], sql: x}
"""
    )
    assert load_text(text).diagnostics == ()


def test_a_port_that_stands_twice_is_told_once() -> None:
    text = HEAD + "streams: {y: {}}\njobs: {j: {from: [{stream: y, consumes: 1}, "
    text += "{stream: y, consumes: 2}], sql: x}}"
    assert [item.code for item in load_text(text).diagnostics] == ["port-twice"]


def test_what_could_not_be_opened_has_a_place() -> None:
    loaded = load_text(HEAD + "streams: {y: {}}\njobs: {j: {from: [~, y], sql: x}}", "f")
    assert [str(item.at) for item in loaded.diagnostics] == ["f:4:19"]


def test_expressions_of_ours_are_text_elsewhere() -> None:
    job = (
        "- {job_name: A, spe_address: 'http://h:1', source_broker: 'tcp://h:2', entry_class: c, "
        "sink_broker: 'tcp://h:2', source_topic: a, sink_topic: b, job_path: '${{ x }}'}\n"
    )
    jar = load_text("jobs:\n" + job).required().jobs["A"].jar
    assert jar is not None
    assert jar.path == "${{ x }}"


def test_circles_of_single_steps() -> None:
    assert circle_of({"a": "b", "b": None}) is None
    assert circle_of({"x": "a", "a": "b", "b": "a"}) == ["a", "b", "a"]
    assert circle_of({"a": "gone"}) is None
