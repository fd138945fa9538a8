"""How chains are written for Flink, and how their job is compiled; nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.experiment.sites import loaded
from millrace.experiment.speck.chains import Chain
from millrace.experiment.speck.flink import Brokers, composition
from millrace.experiment.speck.pass_on import ENTRY, SOURCES, javac
from millrace.machine import Java

BROKERS = Brokers(
    {"s0": "127.0.0.1:1", "s1": "127.0.0.1:2"}, {("s1", "s0"): "127.0.0.1:3"}, Path("/p/password")
)
JAR = Path("/p/pass-on.jar")
CHAIN = Chain("c", ("s0", "s1", "s0"))


def told(arguments: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(arguments[::2], arguments[1::2], strict=True))


def test_jobs_are_told_where_brokers_are_from_their_own_sites() -> None:
    file = loaded(composition(BROKERS, JAR).document("p", [CHAIN]))
    ends = {}
    for name, job in file.jobs.items():
        assert job.jar is not None
        assert (job.needs, job.jar.path, job.jar.entry) == ("flink", str(JAR), ENTRY)
        found = told(job.jar.arguments)
        ends[name] = (found["--source_broker"], found["--sink_broker"])
        assert [found["--source_topic"], found["--sink_topic"]] == [
            file.streams[stream].address for stream in (*job.reads, *job.writes)
        ]
    near, far, over = "tcp://127.0.0.1:1", "tcp://127.0.0.1:2", "tcp://127.0.0.1:3"
    # The first reads at its own site; s1 reads s0's over the link, and nothing links s0 to s1.
    assert ends == {"c_j0": (near, near), "c_j1": (over, far), "c_j2": (far, near)}
    assert [file.streams[CHAIN.stream(number)].site for number in range(4)] == [
        "s0", "s0", "s1", "s0",
    ]  # fmt: skip


def test_a_version_is_an_argument_of_one_job() -> None:
    chains = composition(BROKERS, JAR)
    first = loaded(chains.document("p", [CHAIN]))
    other = loaded(chains.document("p", [CHAIN], {"c": [0, 1, 0]}))
    assert [name for name in first.jobs if first.jobs[name] != other.jobs[name]] == ["c_j1"]
    assert other.jobs["c_j1"].jar is not None
    assert told(other.jobs["c_j1"].jar.arguments)["--version"] == "1"


def test_no_password_is_written_down(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("hush")
    brokers = Brokers(BROKERS.direct, {}, password)
    assert "hush" not in str(composition(brokers, JAR).document("p", [CHAIN]))


def test_without_a_compiler_the_way_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationFailed, match="no javac") as caught:
        javac(Java(tmp_path, 17))
    assert "install a JDK" in caught.value.hint


def test_the_compiler_beside_java_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "home" / "bin", tmp_path / "path"]
    for place in places:
        place.mkdir(parents=True)
        (place / "javac").touch(0o755)
    monkeypatch.setenv("PATH", str(places[1]))
    assert javac(Java(tmp_path / "home", 17)) == str(places[0] / "javac")
    assert javac(Java(tmp_path, 17)) == str(places[1] / "javac")


def test_the_entry_class_has_a_source() -> None:
    assert (SOURCES / f"{ENTRY.replace('.', '/')}.java").is_file()
