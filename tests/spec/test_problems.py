"""Wrong input, each with the code, the place and the way out that it gets."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace import spec
from millrace.spec import Loaded, load, load_text

HEAD = "pipeline: p\nsites: {n: {broker: kafka}}\n"
FLOW = HEAD + "streams: {a: {}, b: {}}\n"


@pytest.mark.parametrize(
    ("text", "code", "place", "hint"),
    [
        (FLOW + "jobs: {j: {from: aa, to: b, sql: x}}", "unknown-stream", "4:18", "'a'"),
        (FLOW + "jobs: {j: {from: a, to: b, sql: x, site: m}}", "unknown-site", "4:42", "sites"),
        (FLOW + "jobs: {j: {from: a, to: b, sql: x, group: g}}", "unknown-group", "4:43", "groups"),
        (FLOW + "jobs: {j: {from: a, to: b}}", "no-kind", "4:8", "sql"),
        (FLOW + "jobs: {j: {from: a, to: b, sql: x, map: y}}", "two-kinds", "4:41", "keep one"),
        (FLOW + "jobs: {j: {to: [a, b], sql: x}}", "no-input", "4:8", "from"),
        (FLOW + "jobs: {j: {from: [a, b], generator: g}}", "no-output", "4:8", "to: STREAM"),
        (FLOW + "jobs: {j: {from: [a, a], to: b, sql: x}}", "port-twice", "4:22", "as:"),
        (
            FLOW + 'jobs: {j: {from: [a, {stream: a, as: c}], to: b, map: "x:y"}}',
            "stream-twice",
            "4:18",
            "once",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, jar: x, engine: flink}}",
            "no-engine",
            "4:8",
            "engine: flink",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, map: x, mode: real-time}}",
            "no-real-time",
            "4:42",
            "auto",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, mode: real-time, order: preserve}}",
            "no-real-time",
            "4:42",
            "micro-batch",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, mode: real-time, promise: no-duplicates}}",
            "no-real-time",
            "4:42",
            "micro-batch",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, mode: real-time, window: 5 s}}",
            "no-real-time",
            "4:42",
            "micro-batch",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, window: {by: t}}}",
            "window",
            "4:44",
            "of: 10 s",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, window: {gap: 1 s, every: 1 s}}}",
            "window",
            "4:44",
            "every",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, window: {of: 3, every: 1 s}}}",
            "window",
            "4:44",
            "both",
        ),
        (FLOW + "jobs: {j: {from: a, to: b, sql: x, window: {of: 0 s}}}", "window", "4:44", "more"),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, window: {of: 3, by: t}}}",
            "window",
            "4:44",
            "by:",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, window: {of: 3 s, lateness: 1 s}}}",
            "window",
            "4:44",
            "lateness",
        ),
        (
            HEAD + "streams: {a: {}, b: {}, c: {}}\njobs: {j: {from: a, to: b, sql: x}}",
            "dangling-stream",
            "3:25",
            "remove",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x}, k: {from: b, to: a, sql: x}}",
            "cycle",
            "",
            "remove",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: a, sql: x}, k: {from: b, sql: x}}",
            "cycle",
            "4:18",
            "remove",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, sql: x, pin: [0, 1]}, k: {from: b, sql: x, pin: 1}}",
            "core-taken",
            "4:76",
            "another core",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: {stream: b, schema: {x: int}}, sql: x},"
            " k: {from: a, to: {stream: b, schema: {x: long}}, sql: x}}",
            "two-schemas",
            "4:82",
            "same",
        ),
        (
            HEAD + "streams: {a: {}, b: {schema: {x: int}}}\n"
            "jobs: {j: {from: a, to: {stream: b, schema: {x: long}}, sql: x}}",
            "two-schemas",
            "4:25",
            "same",
        ),
        (
            HEAD + "streams: {a: {}, b: {transient: true}}\n"
            "jobs: {j: {from: a, to: b, sql: x}, k: {from: a, to: b, sql: x}}",
            "transient-writers",
            "3:33",
            "durable",
        ),
        (
            HEAD + "streams: {a: {transport: mqtt}}\njobs: {j: {from: a, sql: x}}",
            "wrong-broker",
            "3:26",
            "transport",
        ),
        (
            "pipeline: p\nsites: {n: {}}\nstreams: {a: {}}\njobs: {j: {from: a, sql: x}}",
            "no-broker",
            "3:11",
            "broker: kafka",
        ),
        (
            HEAD + "streams: {a: {dead_letters: d}}\njobs: {j: {from: a, sql: x}}",
            "unknown-stream",
            "3:29",
            "declare",
        ),
        (
            HEAD + "streams: {a: {}, b: {topic: a}}\njobs: {j: {from: [a, b], sql: x}}",
            "same-topic",
            "3:18",
            "one of them",
        ),
        ("pipeline: p\nsites: {n: {pilot: x}}", "unknown-pilot", "2:20", "pilots"),
        ("pipeline: p\npilots: {x: {parent: y}}", "unknown-pilot", "2:22", "pilots"),
        (
            "pipeline: p\nsites: {m: {broker: kafka}, n: {broker: kafka}}\nstreams: {a: {}}\n"
            "jobs: {j: {from: a, sql: x}}",
            "no-site",
            "3:11",
            "site:",
        ),
        (
            "pipeline: p\nsites: {m: {broker: kafka}, n: {broker: kafka}}\nstreams: {a: {}}\n"
            "jobs: {j: {site: m, from: a, sql: x}, k: {site: n, from: a, sql: x}}",
            "no-site",
            "3:11",
            "site:",
        ),
        (
            HEAD + "streams: {a: {}}\njobs: {j: {from: {as: x}, sql: x}}",
            "missing-key",
            "4:18",
            "stream",
        ),
        (HEAD + "streams: {a b: {}}", "bad-name", "3:11", "rename"),
        (HEAD + "streams: [a]", "wrong-type", "3:10", ""),
        (HEAD + "streams: {a: 5}", "wrong-type", "3:14", ""),
        (HEAD + "streams: {a: {partitions: 0}}", "wrong-type", "3:27", "whole number from 1"),
        (HEAD + "streams: {a: {partitions: true}}", "wrong-type", "3:27", "whole number"),
        (HEAD + "streams: {a: {topic: 5}}", "wrong-type", "3:22", "quotes"),
        (HEAD + "streams: {a: {partitions: '2'}}", "wrong-type", "3:27", "without quotes: 2"),
        (HEAD + "streams: {a: {transient: 'true'}}", "wrong-type", "3:26", "without quotes: true"),
        (HEAD + "streams: {a: {transient: maybe}}", "wrong-type", "3:26", "true or false"),
        (HEAD + "streams: {a: {schema: [x]}}", "wrong-type", "3:23", "a map"),
        (HEAD + "streams: {a: {retention: 5}}", "wrong-type", "3:26", "a time such as"),
        (HEAD + "defaults: {stream: {}}", "unknown-key", "3:12", "'streams'"),
        (HEAD + "groups: {g: {sites: {}}}", "unknown-key", "3:14", ""),
        (HEAD + "groups: {g: 5}", "wrong-type", "3:13", ""),
        (HEAD + "profiles: {x: {jobs: {}}}\nprofile: x", "unknown-key", "3:16", ""),
        (HEAD + "jobs: {j: {for: [1], sql: x}}", "wrong-type", "3:17", ""),
        (HEAD + "jobs: {j: {for: {e: 5}, sql: x}}", "wrong-type", "3:21", ""),
        (HEAD + "jobs: {j: {for: {e-1: [5]}, sql: x}}", "bad-name", "3:18", ""),
        (
            FLOW + "jobs: {j: {for: {e: [1, 2]}, from: a, to: b, sql: x}}",
            "declared-twice",
            "4:8",
            "${{",
        ),
        (
            HEAD + "constants: {a: '${{ b }}', b: '${{ a }}'}",
            "constant-cycle",
            "3:",
            "value of its own",
        ),
        (HEAD + "constants: {a: '${{ a'}", "expression", "3:16", "close it"),
        (HEAD + "include: 5", "wrong-type", "3:10", ""),
        ("pipeline: [p]", "wrong-type", "1:11", ""),
        ("pipeline: '${{ nope }}'", "expression", "1:11", "constants"),
        ("- a", "wrong-type", "1:1", ""),
        ("just text", "wrong-type", "1:1", ""),
        ("{pipeline: p, constants: {x: ${{ 1 }}}}", "syntax", "1:", "quotes"),
        (
            "pipeline: p\nsites: {n: {broker: {options: {sasl.password: hunter2}}}}",
            "secret-in-file",
            "2:47",
            "{secret: env:NAME}",
        ),
        (
            "pipeline: p\nsites: {n: {broker: {address: 'tcp://me:pw@h:1'}}}",
            "secret-in-file",
            "2:31",
            "env",
        ),
        (
            FLOW + "jobs: {j: {from: a, to: b, generator: {code: g, constraints: {c: {}}}}}",
            "unknown-stream",
            "4:66",
            "to:",
        ),
    ],
)
def test_wrong_input_says_what_to_do(text: str, code: str, place: str, hint: str) -> None:
    told = {item.code: item for item in load_text(text, "f").diagnostics}
    assert code in told, [f"{item.at} {item.code} {item.message}" for item in told.values()]
    found = told[code]
    assert str(found.at).startswith(f"f:{place}"), f"{found.at}: {found.message}"
    assert hint in f"{found.hint} {found.expected}"
    assert load_text(text).pipeline is None


def test_things_that_are_broken_cause_no_further_errors() -> None:
    loaded = load_text(HEAD + "streams: {a: {partitions: x}}\njobs: {j: {from: a, sql: x}}")
    assert [item.code for item in loaded.diagnostics] == ["wrong-type"]


def test_what_a_broken_thing_does_not_touch_is_still_checked() -> None:
    loaded = load_text(
        HEAD + "streams: {a: {sight: n}}\njobs: {j: {from: aa, map: x, mode: real-time}}"
    )
    assert [item.code for item in loaded.diagnostics] == [
        "unknown-key",
        "unknown-stream",
        "no-real-time",
    ]


def test_a_long_list_of_problems_is_cut_and_counted() -> None:
    jobs = "\n".join(f"  j{number}: {{nope: 1}}" for number in range(500))
    loaded = load_text(f"pipeline: p\njobs:\n{jobs}")
    assert len(loaded.diagnostics) == 200
    assert loaded.left_out >= 300


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        (b"pipeline: p\nx: \xff\xfe", "encoding", "2:4"),
        ("pipeline: p".encode("utf-16"), "encoding", "1:1"),
        (b"pipeline: p\n\0", "bad-character", "2:1"),
        (b"\x00" * 100, "bad-character", "1:1"),
        (b"# " + b"x" * (10 * 1024 * 1024), "too-large", "1:1"),
        (b"\xef\xbb\xbfpipelin: p", "unknown-key", "1:1"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, code: str, place: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(data)
    told = load(path).diagnostics[0]
    assert told.code == code
    assert str(told.at).endswith(place)


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path, Path("a\0b"), tmp_path / ("x" * 300)):
        loaded = load(path)
        assert loaded.diagnostics[0].code == "unreadable"
        assert loaded.diagnostics[0].hint


def test_half_characters_are_told() -> None:
    assert load_text("pipeline: \ud800").diagnostics[0].code == "bad-character"


Loads = Callable[..., Loaded]


def test_include_cycles_and_escapes(loads: Loads, tmp_path: Path) -> None:
    told = loads("pipeline: p\ninclude: a.yaml", a_yaml="include: b.yaml", b_yaml="include: a.yaml")
    assert [item.code for item in told.diagnostics] == ["include-cycle"]
    assert "a.yaml -> b.yaml -> a.yaml" in told.diagnostics[0].found
    told = loads("pipeline: p\ninclude: [pipeline.yaml]")
    assert told.diagnostics[0].code == "include-cycle"
    outside = tmp_path.parent / "outside.yaml"
    outside.write_text("streams: {}")
    link = tmp_path / "link.yaml"
    link.symlink_to(outside)
    for name in ("../outside.yaml", str(outside), "link.yaml", "a\0b"):
        told = loads(f'pipeline: p\ninclude: ["{name}"]'.replace("\0", "\\0"))
        assert told.diagnostics[0].code == "include-escape", name
    told = loads("pipeline: p\ninclude: gone.yaml")
    assert (told.diagnostics[0].code, str(told.diagnostics[0].at)[-4:]) == ("unreadable", "2:10")


def test_the_same_thing_in_two_files_is_told_with_both_places(loads: Loads) -> None:
    told = loads("pipeline: p\ninclude: a.yaml\nsites: {n: {}}", a_yaml="sites: {n: {}}")
    found = told.diagnostics[0]
    assert (found.code, len(found.related)) == ("declared-twice", 1)


def test_keys_of_a_main_file_do_not_belong_into_an_include(loads: Loads) -> None:
    told = loads("pipeline: p\ninclude: a.yaml", a_yaml="pipeline: q")
    assert told.diagnostics[0].code == "unknown-key"


def test_more_than_100000_jobs_are_refused(loads: Loads) -> None:
    told = loads("""
pipeline: p
streams: {raw: {}}
jobs: {"j${{ a }}-${{ b }}": {for: {a: "${{ range(1000) }}", b: "${{ range(1000) }}"}, from: raw}}
""")
    assert "too-many" in [item.code for item in told.diagnostics]


def test_constants_that_double_do_not_fill_the_memory(loads: Loads) -> None:
    doubling = "\n".join(f'  c{n}: "${{{{ c{n - 1} + c{n - 1} }}}}"' for n in range(1, 64))
    told = loads(f"pipeline: p\nconstants:\n  c0: xxxxxxxx\n{doubling}")
    assert any("characters" in item.message for item in told.diagnostics)


def test_a_long_chain_of_constants_is_no_problem(loads: Loads) -> None:
    chain = "\n".join(f'  c{n}: "${{{{ c{n - 1} + 1 }}}}"' for n in range(1, 3000))
    loaded = loads(f"pipeline: ${{{{ string(c2999) }}}}\nconstants:\n  c0: 0\n{chain}")
    assert loaded.pipeline is not None
    assert loaded.pipeline.name == "2999"


def test_no_problem_is_told_without_a_hint() -> None:
    """So that also those have one which hardly any file brings about."""
    folder = Path(str(spec.__file__)).parent
    for path in sorted(folder.glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            named = {keyword.arg for keyword in call.keywords}
            if call.func.attr == "error" and None not in named:
                assert "hint" in named, f"{path.name}:{call.lineno}"
