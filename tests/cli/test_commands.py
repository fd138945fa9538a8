"""The commands as a user types them, wrong ones among them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Run, document
from tests.conftest import FIXTURES

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "road-traffic" / "pipeline.yaml"
OLD, NEW = (str(FIXTURES / f"speck-listing-{number}.yaml") for number in ("1.1", "1.2"))


def test_validate_says_what_a_file_holds(run: Run) -> None:
    done = run("validate", str(EXAMPLE), "--profile", "laptop")
    assert done.returncode == 0
    assert "road-traffic is valid (17 jobs, 19 streams, 1 site; native format)" in done.stdout


def test_validate_shows_the_line_and_marks_the_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("pipeline: p\nstreams:\n  raw: {partitons: 2}\n")
    done = run("validate", "p.yaml")
    assert done.returncode == 1
    assert done.stdout == ""
    assert (
        done.stderr
        == """\
error: streams.raw has no key 'partitons'
  --> p.yaml:3:9
   |
 3 |   raw: {partitons: 2}
   |         ^^^^^^^^^
   = expected: description, site, group, transport, topic, port, format, schema, key, partitions, \
encryption, buffer, transfer, retention, max_record, compact, promise, dead_letters, rate, \
transient, options
   = help: did you mean 'partitions'?

1 error
"""
    )


def test_validate_as_json(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("pipeline: p\njobs: {j: {sql: x, sql: y}}\n")
    found = document(run("validate", "p.yaml", "-o", "json"))
    assert found["valid"] is False
    first = found["diagnostics"][0]
    assert (first["code"], first["location"]) == (
        "duplicate-key",
        {"file": "p.yaml", "line": 2, "column": 20},
    )
    assert first["related"][0]["location"]["column"] == 12
    several = document(run("validate", OLD, NEW, "-o", "json"))
    assert [item["valid"] for item in several] == [True, True]


def test_validate_shows_buffers_that_suffice(run: Run) -> None:
    text = (
        "pipeline: p\nsites: {n: {engine: process, broker: kafka}}\nstreams: {x: {}}\njobs:\n"
        "  a: {to: {stream: x, produces: 3}, process: a}\n"
        "  b: {from: {stream: x, consumes: 2}, process: b}\n"
    )
    done = run("validate", "-", stdin=text)
    assert "firings in a round: a 2, b 3" in done.stdout
    assert "in records: x 4" in done.stdout


def test_stdin_that_is_no_text_or_too_much(run: Run) -> None:
    assert run("validate", "-", stdin="").returncode == 1
    assert "10 MiB" in run("validate", "-", stdin="#" * (11 * 1024 * 1024)).stderr


def test_plan_of_the_speck_pair(run: Run) -> None:
    done = run("plan", "--from", OLD, NEW)
    assert done.returncode == 0
    assert "~ job C " in done.stdout
    assert "to: [T-D-merger] -> [T-C2-filter]" in done.stdout
    assert done.stdout.rstrip().endswith(
        "(jobs: 1 to create, 1 to change, 1 to move, 1 to delete); 1 job untouched."
    )
    steps = document(run("plan", "--from", OLD, NEW, "-o", "json"))["steps"]
    jobs = {(step["action"], step["name"]) for step in steps if step["kind"] == "job"}
    assert jobs == {("delete", "B"), ("create", "C2"), ("change", "C"), ("move", "D")}
    assert set(steps[0]) >= {"action", "kind", "name", "impact", "reasons", "after"}
    ids = {step["id"] for step in steps}
    assert all(set(step["after"]) <= ids for step in steps)


def test_plan_takes_files_of_several_formats(run: Run, tmp_path: Path) -> None:
    imported = run("import", OLD).stdout
    (tmp_path / "native.yaml").write_text(imported)
    done = run("plan", "--from", OLD, "native.yaml", "--detailed-exitcode")
    assert (done.returncode, done.stdout) == (0, "No changes: what runs is what the file says.\n")
    assert run("plan", str(FIXTURES / "skepu-producer-consumer.json")).returncode == 0


def test_detailed_exit_codes(run: Run, tmp_path: Path) -> None:
    assert run("plan", "--from", OLD, NEW, "--detailed-exitcode").returncode == 2
    assert run("plan", "--from", OLD, OLD, "--detailed-exitcode").returncode == 0
    assert run("plan", "--from", OLD, "gone.yaml", "--detailed-exitcode").returncode == 1
    assert run("plan", "--nope", NEW, "--detailed-exitcode").returncode == 64
    assert run("plan", "--nope", NEW).returncode == 2


def test_profiles_of_both_files(run: Run) -> None:
    one = str(EXAMPLE)
    moved = run("plan", "--from", one, "--from-profile", "fog", one, "--profile", "cloud")
    assert "16 to move" in moved.stdout
    same = run("plan", "--from", one, one, "--profile", "cloud")
    assert same.stdout.startswith("No changes")
    foreign = run("plan", "--from", OLD, one, "--profile", "cloud")
    assert foreign.returncode == 0
    wrong = run("plan", one, "--profile", "clod")
    assert f"{one}:3:1" in wrong.stderr
    assert "cloud" in wrong.stderr
    assert run("graph", one, "--from", one, "--from-profile", "fog", "-p", "cloud").returncode == 0


def test_problems_of_both_files_are_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("pipelin: a")
    (tmp_path / "b.yaml").write_text("pipelin: b")
    told = run("plan", "--from", "a.yaml", "b.yaml").stderr
    assert "a.yaml:1:1" in told
    assert "b.yaml:1:1" in told


def test_what_the_file_leaves_to_be_understood_is_explained(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "pipeline: p\nstreams: {s: {}}\njobs: {j: {from: s, sql: x}}\n"
        "defaults: {jobs: {checkpoint: 20 s}}\n"
    )
    done = run("explain", "streams.s.site", "-f", "p.yaml")
    assert done.stdout == "streams.s.site = local\n  filled in from what is around it\n"
    done = run("explain", "jobs.j.checkpoint", "-f", "p.yaml")
    assert "jobs.j.checkpoint.every = 20 s\n  from defaults: p.yaml:4:31" in done.stdout


def test_an_export_that_would_not_read_back_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("""
pipeline: p
sites: {a: {engine: process}, b: {engine: process}}
groups: {g: }
streams: {s: {site: b, group: g, transport: zmq, format: raw}}
jobs:
  w: {site: a, group: g, to: s, process: {}}
  r: {site: b, group: g, from: s, process: {}}
""")
    done = run("export", "p.yaml", "--as", "skepu")
    assert done.returncode == 1
    assert "skepu can't say all of stream 's'" in done.stderr


def test_names_that_a_format_has_no_place_for_are_noted(run: Run, tmp_path: Path) -> None:
    native = run("import", OLD).stdout.replace("pipeline: speck", "pipeline: mine")
    (tmp_path / "n.yaml").write_text(native)
    assert "no place for the name 'mine'" in run("export", "n.yaml", "--as", "speck").stderr


SPECK_NAMED = """
pipeline: p
sites:
  e: {engine: {kind: flink, address: "http://h1:8081"}}
  b: {engine: [], broker: {kind: mqtt, address: "tcp://h2:1883"}}
streams: {s: {site: b, format: raw}, t: {site: b, format: raw}}
jobs: {j: {site: e, engine: flink, from: s, to: t, jar: {path: x, entry: c}}}
"""


def test_sites_that_are_not_named_by_their_address_are_noted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(SPECK_NAMED)
    done = run("export", "p.yaml", "--as", "speck")
    assert done.returncode == 0
    assert "names sites by their addresses" in done.stderr
    more = SPECK_NAMED.replace('8081"}}', '8081"}, broker: {kind: mqtt, address: "tcp://h1:1"}}')
    (tmp_path / "p.yaml").write_text(more)
    done = run("export", "p.yaml", "--as", "speck")
    assert done.returncode == 1
    assert "can't say the broker of site 'e'" in done.stderr


def test_problems_of_both_files_are_one_document(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("pipelin: a")
    (tmp_path / "b.yaml").write_text("pipelin: b")
    found = document(run("plan", "--from", "a.yaml", "b.yaml", "-o", "json"))
    assert {item["location"]["file"] for item in found["diagnostics"]} == {"a.yaml", "b.yaml"}


def test_explain_tells_things_apart_whose_names_begin_alike(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "pipeline: p\nstreams: {a: {partitions: 2}, a.b: {partitions: 3}}\n"
        "jobs: {j: {from: [a, a.b], sql: x}}\n"
    )
    found = document(run("explain", "streams.a", "-f", "p.yaml", "-o", "json"))
    assert {item["path"] for item in found} == {"streams.a.partitions"}


def test_warnings_are_shown_and_do_not_fail(run: Run) -> None:
    text = (
        "pipeline: p\nstreams: {s: {rate: 5 MB/s}}\n"
        "jobs: {j: {from: {stream: s, consumes: 1}, sql: x}}"
    )
    done = run("validate", "-", stdin=text)
    assert done.returncode == 0
    assert "warning: the rate of 's' is in bytes" in done.stderr


def test_graph_in_every_format(run: Run, tmp_path: Path) -> None:
    assert run("graph", str(EXAMPLE)).stdout.startswith("<svg ")
    assert run("graph", str(EXAMPLE), "-o", "mermaid").stdout.startswith("flowchart LR")
    assert run("graph", NEW, "--from", OLD, "-o", "dot").stdout.startswith("digraph")
    done = run("graph", str(EXAMPLE), "--out", "t.svg")
    assert (done.stdout, done.stderr) == ("", "wrote t.svg\n")
    assert (tmp_path / "t.svg").read_text().startswith("<svg ")
    assert "can't be written" in run("graph", str(EXAMPLE), "--out", "no/t.svg").stderr


def test_explain_tells_where_a_value_came_from(run: Run) -> None:
    done = run("explain", "streams.raw-1.partitions", "-f", str(EXAMPLE))
    assert "streams.raw-1.partitions = 2" in done.stdout
    assert "from defaults: " in done.stdout
    done = run("explain", "streams.merged.partitions", "-f", str(EXAMPLE))
    assert "= 6" in done.stdout
    assert "instead of the number 2 from defaults" in done.stdout
    done = run("explain", "jobs.global.mode", "-f", str(EXAMPLE))
    assert "built-in default" in done.stdout
    whole = document(run("explain", "jobs.clean-1", "-f", str(EXAMPLE), "-o", "json"))
    paths = {item["path"]: item for item in whole}
    assert paths["jobs.clean-1.site"]["value"] == "north"
    assert (
        "instead_of"
        in document(run("explain", "streams.merged.partitions", "-f", str(EXAMPLE), "-o", "json"))[
            0
        ]
    )


def test_explain_offers_the_near_path(run: Run) -> None:
    done = run("explain", "jobs.globl.mode", "-f", str(EXAMPLE))
    assert done.returncode == 1
    assert "did you mean jobs.global" in done.stderr
    assert run("explain", "jobs.x").returncode == 1
    assert "pipeline.yaml can't be read" in run("explain", "jobs.x").stderr


def test_native_goes_there_and_back_unchanged(run: Run, tmp_path: Path) -> None:
    first = run("export", str(EXAMPLE), "--as", "native").stdout
    (tmp_path / "again.yaml").write_text(first)
    assert run("export", "again.yaml", "--as", "native").stdout == first
    as_json = run("export", "again.yaml", "--as", "native", "-o", "json").stdout
    (tmp_path / "again.json").write_text(as_json)
    assert run("export", "again.json", "--as", "native").stdout == first


@pytest.mark.parametrize("target", ["speck", "skepu"])
def test_foreign_formats_go_there_and_back(run: Run, tmp_path: Path, target: str) -> None:
    source = OLD if target == "speck" else str(FIXTURES / "skepu-producer-consumer.json")
    native = run("import", source, "-o", "json").stdout
    (tmp_path / "native.json").write_text(native)
    exported = run("export", "native.json", "--as", target)
    assert exported.returncode == 0, exported.stderr
    (tmp_path / "exported").write_text(exported.stdout)
    assert run("import", "exported", "-o", "json").stdout == native
    as_json = run("export", source, "--as", target, "-o", "json")
    assert as_json.returncode == 0


def test_what_a_format_can_not_say_is_told(run: Run) -> None:
    done = run("export", str(EXAMPLE), "--as", "speck")
    assert done.returncode == 1
    assert "SpecK can't say" in done.stderr
    assert done.stdout == ""


def test_schema_is_the_file_in_the_docs(run: Run) -> None:
    assert run("schema").stdout == (ROOT / "docs" / "pipeline.schema.json").read_text()


def test_help_has_an_example_for_every_command(run: Run) -> None:
    assert "Usage" in run("--help").stdout
    assert run("--version").stdout.startswith("millrace 0.")
    for command in ("validate", "plan", "graph", "explain", "schema", "import", "export"):
        done = run(command, "--help")
        assert done.returncode == 0
        assert f"millrace {command}" in done.stdout.replace("Usage: millrace", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["plam"],
        ["validate"],
        ["validate", "x.yaml", "-o", "xml"],
        ["export", "x", "--as", "xml"],
        ["plan", "a", "b"],
        [],
    ],
)
def test_wrong_usage_says_so(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == (2 if arguments else done.returncode)
    assert "Usage" in done.stderr + done.stdout


@pytest.mark.parametrize("command", ["validate", "plan", "graph", "import"])
def test_files_that_are_missing_or_broken(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "broken.yaml").write_bytes(b"\xff\x00")
    for name in ("gone.yaml", "broken.yaml", "."):
        done = run(command, name)
        assert done.returncode == 1
        assert "error: " in done.stderr
        assert "= help: " in done.stderr


def test_a_closed_pipe_is_quiet() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "millrace.cli", "export", str(EXAMPLE), "--as", "native"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_the_installed_command_is_there() -> None:
    command = Path(sys.executable).parent / "millrace"
    done = subprocess.run(
        [command, "validate", EXAMPLE], capture_output=True, text=True, timeout=60, check=True
    )
    assert "is valid" in done.stdout


def test_what_a_terminal_can_not_show_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("pipeline: é\n", encoding="utf-8")
    for command in ("validate", "graph"):
        done = subprocess.run(
            [sys.executable, "-m", "millrace.cli", command, "p.yaml"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            check=True,
        )
        assert "\\xe9" in done.stdout
