"""Inputs that once hung, crashed or were taken for something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.model.status import Observed
from millrace.plan import plan
from millrace.spec import FileFormat, Loaded, load, load_text, yaml_reader
from millrace.spec.balance import solve
from millrace.spec.speck import speck_of
from millrace.spec.yaml_writer import write_yaml

BASE = "pipeline: x\nstreams: {s: {}}\njobs: {j: {from: s, sql: x}}\n"


def codes(text: str, file_format: FileFormat | None = None) -> set[str]:
    return {item.code for item in load_text(text, file_format=file_format).diagnostics}


def nested(depth: int, inner: str) -> str:
    return "[" * depth + inner + "]" * depth


def many_readers() -> str:
    readers = "".join(
        f"  r{n}: {{from: {{stream: s, consumes: 100000}}, process: x}}\n" for n in range(1000)
    )
    return (
        "pipeline: p\nsites: {n: {engine: process, broker: kafka}}\nstreams: {s: {}}\njobs:\n"
        "  w: {to: {stream: s, produces: 1}, process: x}\n" + readers
    )


SLOW_ONCE = {
    "empty lines": BASE + "\n" * 20_000 + "#end\n",
    "indented lines": BASE + "".join(" " * n + "#\n" for n in range(2_000)),
    "colons": BASE.replace("sql: x", "sql: 'a://" + ":" * 100_000 + "'"),
    "references": BASE.replace(
        "{s: {}}", "{s: {partitions: '${{ " + " + ".join(["streams.s.partitions"] * 30) + " }}'}}"
    ),
    "chained references": "pipeline: p\nstreams:\n"
    + "".join(
        f"  s{n}: {{partitions: '${{{{ {streams} + {streams} }}}}'}}\n"
        for n in range(19)
        for streams in [f"streams.s{n + 1}.partitions"]
    )
    + "  s19: {partitions: 1}\n",
    "skepu list": "application { id: x y: [" + "1 " * 20_000 + "] workflow: [] }",
    "skepu constants": "application { id: x workflow: [] "
    "constants: [ {id: a value: [$a $a $a]} ] }",
    "macro behind a comment": 'pipeline: p\nconstants: {n: "${{ range(60000).//c\\nmap(x, x) }}"}',
    "unknown keys": "pipeline: p\n" + "".join(f"k{n}: 1\n" for n in range(100_000)),
    "names": "pipeline: p\nstreams:\n"
    + "".join(f"  stream-number-{n}: {{}}\n" for n in range(2000))
    + "jobs:\n"
    + "".join(f"  j{n}: {{from: straem-numbre-{n}, sql: x}}\n" for n in range(300)),
    "hidden key": "? " + "k" * 5_000_000 + "\n: 1\n",
    "many readers": many_readers(),
    "constants": "pipeline: p\nconstants:\n"
    + "".join(f"  c{n}: '${{{{ {n} }}}}'\n" for n in range(60_000)),
}


@pytest.mark.timeout(60)  # each takes a few seconds at most; before, minutes or for ever
@pytest.mark.parametrize("name", SLOW_ONCE)
def test_what_hung_once_comes_to_an_end(name: str) -> None:
    loaded = load_text(SLOW_ONCE[name])
    assert loaded.pipeline is not None or loaded.diagnostics


def test_files_have_a_limited_number_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "MOST_NODES", 1000)
    assert codes("constants: {a: [" + "1," * 1500 + "]}") == {"too-large"}
    assert "too-large" not in codes("pipeline: p\nconstants: {a: [" + "1," * 500 + "]}")


def test_two_hundred_problems_do_not_hide_that_there_are_more() -> None:
    text = (
        "pipeline: x\nconstants:\n" + "  a: 1\n" * 202 + "streams: {s: {}}\n"
        "jobs: {j: {from: {stream: nope, consumes: 1}, sql: x}}\n"
    )
    assert load_text(text).pipeline is None


def test_depth_that_aliases_build_is_bounded() -> None:
    lines = ["a0: &a0 " + nested(90, "1")]
    lines += [f"a{n}: &a{n} " + nested(90, f"*a{n - 1}") for n in range(1, 40)]
    assert codes("constants:\n  " + "\n  ".join(lines)) == {"too-deep"}


@pytest.mark.parametrize("every", ["", ", every: 1 s"])
def test_rates_beyond_meaning_say_nothing(every: str) -> None:
    jobs = "".join(
        f"  j{n}: {{from: {{stream: s{n}, consumes: 1152921504606846977}}, "
        f"to: {{stream: s{n + 1}, produces: 2305843009213693951}}, process: x{every}}}\n"
        for n in range(300)
    )
    streams = ", ".join(f"s{n}: {{}}" for n in range(301))
    text = (
        f"pipeline: p\nsites: {{n: {{engine: process, broker: kafka}}}}\n"
        f"streams: {{{streams}}}\njobs:\n{jobs}"
    )
    loaded = load_text(text)
    assert not loaded.balance.firings
    assert all(item.code == "imbalance" for item in loaded.diagnostics)


def test_pilots_that_extend_each_other() -> None:
    assert codes("pipeline: x\npilots: {a: {parent: b}, b: {parent: a}}") == {"cycle"}
    assert codes("pipeline: x\npilots: {a: {}, b: {parent: a}, c: {parent: b}}") == set()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pipeline: x\nstreams: {s: {options: {a: 0x" + "f" * 290 + "}}}", "number"),
        ("pipeline: x\nstreams: {s: {port: 70000}}", "wrong-type"),
        ("pipeline: ''", "bad-name"),
        ('pipeline: "\\e[31m"', "bad-name"),
        ("pipeline: x\nsites: {n: {engine: [spark, spark]}}", "two-engines"),
        (
            "pipeline: x\ndefaults: {jobs: {for: {a: [1]}}}\nstreams: {s: {}}\n"
            "jobs: {j: {from: s, sql: x}}",
            "unknown-key",
        ),
        ("pipeline: x\nstreams: {s: {partitions: '${{ streams.s.nope }}'}}", "expression"),
    ],
)
def test_what_was_taken_without_a_word(text: str, code: str) -> None:
    assert code in codes(text)


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        ('{id: h executor_affinity: "\u00b2"}', "wrong-type"),
        ('{id: h executor_affinity: "5-3"}', "wrong-type"),
        ('{id: h executor_affinity: "0-90000"}', "wrong-type"),
    ],
)
def test_cores_of_a_skepu_host(hosts: str, code: str) -> None:
    text = f"{{ resources {{ hosts: [ {hosts} ] }} application {{ id: a workflow: [] }} }}"
    assert code in codes(text)


def test_half_characters_of_a_skepu_text_stay_as_written() -> None:
    text = '{ resources { hosts: [ {id: h host: "\\ud800"} ] } application { id: a workflow: [] } }'
    assert repr("\\ud800") in load_text(text).diagnostics[0].message  # which is no host


def test_skepu_variants_must_differ() -> None:
    text = (
        "application { id: a workflow: [ pipeline { id: p streams: [ {id: s} ] tasks: [ "
        "{ id: t host: h output_streams: [$s] variants: [ x { id: %s } y { id: v } ] } ] } ] }"
    )
    assert "declared-twice" in codes(text % "v", FileFormat.SKEPU)
    assert "wrong-type" in codes(text % "[v]", FileFormat.SKEPU)


Write = Callable[..., Path]


def test_includes_that_never_end(write: Write, tmp_path: Path) -> None:
    path = write("pipeline: p\ninclude: fifo")
    os.mkfifo(tmp_path / "fifo")
    assert load(path).diagnostics[0].code == "unreadable"
    files = {f"b{n}": f'#include "b{n + 1}"\n#include "b{n + 1}"\n' for n in range(24)}
    path = write('#include "b0"\napplication { id: a workflow: [] }', name="a", b24="", **files)
    assert "too-many-files" in {item.code for item in load(path).diagnostics}


Loads = Callable[..., Loaded]


def test_a_profile_constant_wins_over_an_include(loads: Loads) -> None:
    text = (
        "pipeline: ${{ string(a) }}\nprofile: p\nprofiles: {p: {constants: {a: 2}}}\n"
        "include: i.yaml"
    )
    assert loads(text, i_yaml="constants: {a: 250}").required().name == "2"


def test_references_go_through_short_forms_and_expressions(loads: Loads) -> None:
    pipeline = loads("""
pipeline: p
constants: {c: {every: 40 s}}
streams: {s: {}}
jobs:
  a: {from: s, sql: x, checkpoint: 10 s}
  b: {from: s, sql: x, checkpoint: "${{ jobs.a.checkpoint.every }}"}
  c: {from: s, sql: x, checkpoint: "${{ c }}"}
  d: {from: s, sql: x, checkpoint: "${{ jobs.c.checkpoint.every }}"}
""").required()
    assert [str(pipeline.jobs[name].checkpoint.every) for name in "abcd"] == [
        "10 s",
        "10 s",
        "40 s",
        "40 s",
    ]


def test_a_wrong_constant_is_told_once(loads: Loads) -> None:
    loaded = loads(
        BASE.replace("{s: {}}", "{s: {partitions: '${{ n }}'}}")
        + "constants: {n: '${{ 1 / 0 }}', m: '${{ n + 1 }}'}"
    )
    assert [item.code for item in loaded.diagnostics] == ["expression"]
    assert loaded.pipeline is None
    cyclic = loads(
        BASE.replace("{s: {}}", "{s: {partitions: '${{ k }}'}}")
        + "constants: {n: '${{ m }}', m: '${{ n }}', k: 3}"
    )
    assert [item.code for item in cyclic.diagnostics] == ["constant-cycle"]


@pytest.mark.parametrize(
    "layer", ["defaults: {streams: }", "groups: {g: {streams: }}\ndefaults: {streams: {group: g}}"]
)
def test_layers_of_nothing_are_nothing(layer: str) -> None:
    assert codes(BASE + layer) == set()


def test_null_in_a_nearer_layer_ends_the_merge(loads: Loads) -> None:
    pipeline = loads(
        BASE.replace("sql: x", "sql: x, window: {of: 5 s}") + "groups: {g: {jobs: {window: }}}\n"
        "defaults: {jobs: {group: g, window: {by: t}}}"
    ).required()
    window = pipeline.jobs["j"].window
    assert window is not None
    assert window.by is None


def test_topics_that_only_differ_in_what_names_can_not_hold() -> None:
    job = (
        "- {job_name: %s, spe_address: 'http://h:1', source_broker: 'tcp://h:2', "
        "sink_broker: 'tcp://h:2', source_topic: %s, sink_topic: %s, entry_class: c, job_path: j}\n"
    )
    text = "jobs:\n" + job % ("A", "a/b", "x") + job % ("B", "a-b", "y")
    pipeline = load_text(text).required()
    assert {stream.address for stream in pipeline.streams.values()} == {"a/b", "a-b", "x", "y"}
    assert load_text(write_yaml(speck_of(pipeline))).required() == pipeline
    turned = "jobs:\n" + job % ("B", "a-b", "y") + job % ("A", "a/b", "x")
    assert plan(load_text(turned).required(), Observed(pipeline), {}).empty


RATES = "pipeline: p\nsites: {n: {engine: process, broker: kafka}}\n"


def test_rates_that_only_less_than_nothing_could_meet() -> None:
    """A + C = B and C = 2 B: no A above zero."""
    text = (
        RATES
        + """streams: {a: {}, b: {}, c: {}, d: {}}
jobs:
  A: {to: {stream: a, produces: 1}, process: x}
  C: {to: [{stream: a, produces: 1}, {stream: c, produces: 1}], process: x}
  B: {to: [{stream: b, produces: 1}, {stream: d, produces: 2}], process: x}
  J: {from: [{stream: a, consumes: 1}, {stream: b, consumes: 1}], process: x}
  K: {from: [{stream: c, consumes: 1}, {stream: d, consumes: 1}], process: x}
"""
    )
    assert "imbalance" in codes(text)


def test_buffers_with_several_writers_are_not_called_too_small() -> None:
    text = (
        RATES
        + """streams: {s: {buffer: 5}}
jobs:
  A: {to: {stream: s, produces: 5}, process: x, every: 1 s}
  B: {to: {stream: s, produces: 1}, process: x, every: 1 s}
  R: {from: {stream: s, consumes: 3}, process: x}
"""
    )
    loaded = load_text(text)
    assert loaded.diagnostics == ()
    assert dict(loaded.balance.buffers) == {}


def test_a_stream_written_by_two_ports_of_a_job() -> None:
    text = (
        RATES
        + """streams: {s: {}}
jobs:
  A: {to: [{stream: s, as: p, produces: 1}, {stream: s, as: q, produces: 2}], process: x}
  R: {from: {stream: s, consumes: 3}, process: x}
"""
    )
    assert dict(solve(load_text(text).required()).firings) == {"A": 1, "R": 1}


def test_the_declared_rate_of_a_written_stream_must_be_met() -> None:
    text = (
        RATES
        + """streams: {s: {rate: 100/s}}
jobs:
  A: {to: {stream: s, produces: 1}, process: x, every: 1 s}
  R: {from: {stream: s, consumes: 1}, process: x}
"""
    )
    assert "imbalance" in codes(text)
    assert codes(text.replace("100/s", "1/s")) == set()


@pytest.mark.parametrize("char", ["\u0085", "\u007f", "\u2028", "\ufeff", "\uffff", "\u009b"])
def test_json_may_hold_what_yaml_may_not(char: str) -> None:
    text = '{"pipeline": "p", "description": "a' + char + 'b"}'
    assert load_text(text).required().description == f"a{char}b"


def retained(text: str) -> str:
    return BASE.replace("{s: {}}", f"{{s: {{retention: {text}}}}}")


@pytest.mark.parametrize("text", ["123456789.5 TB", "99999999999 TiB", "9999999999 d", "1 ns"])
def test_huge_quantities_read_back(text: str) -> None:
    stream = load_text(retained(text)).required().streams["s"]
    assert load_text(retained(str(stream.retention))).required().streams["s"] == stream


@pytest.mark.parametrize("text", ["999999999999999999.5 TB", "99999999999999999999999999 d"])
def test_quantities_that_could_not_be_written_again_are_refused(text: str) -> None:
    assert codes(retained(text)) == {"wrong-type"}


@pytest.mark.parametrize(
    "text",
    [
        "pipeline: p\nsites: {n: {broker: {options: {sasl.password: 12345}}}}",
        "pipeline: p\nsites: {n: {broker: {address: 'bob:hunter2@h:9092'}}}",
        "pipeline: p\nsites: {n: {engine: process, broker: kafka}}\nstreams: {s: {}}\n"
        "jobs: {j: {from: s, process: {command: x, environment: {DB_PASSWORD: hunter2}}}}",
    ],
)
def test_secrets_are_found_wherever_they_hide(text: str) -> None:
    assert codes(text) == {"secret-in-file"}
    fine = text.replace("hunter2", "{secret: env:X}").replace("12345", "{secret: env:X}")
    if "bob" not in text:
        assert codes(fine) == set()


def test_settings_that_only_sound_like_secrets() -> None:
    assert codes("pipeline: p\nsites: {n: {broker: {options: {token.max.age: 5}}}}") == set()


@pytest.mark.parametrize(
    "letters", ["{a: {dead_letters: a}}", "{a: {dead_letters: b}, b: {dead_letters: a}}"]
)
def test_dead_letters_that_never_rest(letters: str) -> None:
    text = f"pipeline: p\nstreams: {letters}\njobs: {{j: {{from: a, sql: x}}}}"
    assert "cycle" in codes(text)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('streams["s" + x].partitions', "must be written out"),
        ("", "nothing in it"),
        ("1 / 0", "division by zero"),
    ],
)
def test_expressions_that_need_a_better_word(expression: str, message: str) -> None:
    text = BASE.replace("{s: {}}", "{s: {partitions: '${{ " + expression + " }}'}}")
    told = load_text(text + "constants: {x: a}").diagnostics[0]
    assert message in told.message
    assert told.hint


def test_text_that_looks_like_a_reference_is_text() -> None:
    text = BASE.replace("sql: x", "sql: \"${{ 'see streams.foo.bar' }}\"")
    assert load_text(text).required().jobs["j"].sql == "see streams.foo.bar"


def test_constants_can_not_use_things() -> None:
    told = load_text(BASE + "constants: {n: '${{ streams.s.partitions }}'}").diagnostics[0]
    assert "a constant can't use values of other things" in told.message


def test_a_bad_name_causes_no_other_errors() -> None:
    job = (
        "- {job_name: %s, spe_address: 'http://h:1', source_broker: 'tcp://h:2', "
        "sink_broker: 'tcp://h:2', source_topic: a, sink_topic: b, entry_class: c, job_path: j}\n"
    )
    assert codes("jobs:\n" + job % "my job") == {"bad-name"}


def test_two_clocked_writers_and_any_phase() -> None:
    writers = "".join(
        f"  w{n}: {{to: {{stream: s, produces: 1}}, process: x, every: 1 s}}\n" for n in range(10)
    )
    text = RATES + (
        "streams: {s: {}}\njobs:\n  r: {from: {stream: s, consumes: 10}, "
        "process: x, every: 1 s}\n" + writers
    )
    assert load_text(text).balance.buffers["s"] >= 19
