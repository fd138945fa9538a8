"""What all tests share: skips that are seen, and pipelines from a few lines."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from millrace.brokers.kafka import ManagedKafka
from millrace.brokers.kafka.classes import write_archive
from millrace.errors import Diagnostic
from millrace.machine import Folders, Java, fetch_jars, find_java
from millrace.machine.process import session_members
from millrace.spec import Loaded, load

settings.register_profile("millrace", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("millrace")

FIXTURES = Path(__file__).parent / "fixtures"
ALLOWED_SKIPS = Path(__file__).parent / "allowed-skips.txt"


def allowed_skips() -> list[str]:
    lines = ALLOWED_SKIPS.read_text().splitlines()
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


#: Modules that run a whole Spark, apart from the small ones: each uses all cores it can get.
HEAVY = (
    "tests/cli/test_ends.py",
    "tests/cli/test_new.py",
    "tests/cli/test_run.py",
    "tests/coordinator/test_kills.py",
    "tests/coordinator/test_lost_sites.py",
    "tests/coordinator/test_sites.py",
    "tests/crossing/test_listings.py",
    "tests/crossing/test_mqtt.py",
    "tests/crossing/test_speck.py",
    "tests/engines/flink/test_conformance.py",
    "tests/engines/flink/test_engine.py",
    "tests/engines/flink/test_server.py",
    "tests/engines/spark/test_begun.py",
    "tests/engines/spark/test_binary_jobs.py",
    "tests/engines/spark/test_cluster.py",
    "tests/engines/spark/test_drawn.py",
    "tests/engines/spark/test_exact.py",
    "tests/engines/spark/test_farm.py",
    "tests/engines/spark/test_fused.py",
    "tests/engines/spark/test_java_extra.py",
    "tests/engines/spark/test_jobs_drains.py",
    "tests/engines/spark/test_jobs_limits.py",
    "tests/engines/spark/test_jobs_results.py",
    "tests/engines/spark/test_jobs_running.py",
    "tests/engines/spark/test_joins.py",
    "tests/engines/spark/test_keyed.py",
    "tests/engines/spark/test_once.py",
    "tests/engines/spark/test_outside.py",
    "tests/engines/spark/test_overload.py",
    "tests/engines/spark/test_state_kills.py",
    "tests/engines/spark/test_versions.py",
    "tests/examples/test_run.py",
    "tests/examples/test_traffic.py",
    "tests/experiment/test_flink_sites.py",
    "tests/experiment/test_local_sites.py",
    "tests/testing/test_jobs.py",
    "tests/testing/test_spark_conformance.py",
)


#: Modules with a whole site, or several, under load: what runs beside them would starve.
ALONE = (
    "tests/changes/test_changes.py",
    "tests/faults/test_faults.py",
)


#: Modules that work out many cases of one thing: to watch each of their lines would take three
#: times as long and show no more than the first cases do.
COMPUTING = (
    "tests/coordinator/test_histories.py",
    "tests/coordinator/test_machine.py",
    "tests/engines/spark/exact/test_functions.py",
    "tests/engines/spark/exact/test_windows.py",
    "tests/engines/spark/keyed/test_bucket.py",
)


#: Tests run much code once: what Java gains by compiling it better it never earns back here.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_configure() -> None:
    """Let every Java that tests start be one that starts soon, and Ctrl-C reach what they start."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_JAVA)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs the machine for itself."""
    for item in items:
        path = item.path.relative_to(config.rootpath).as_posix()
        if path in HEAVY or path in ALONE:
            item.add_marker(pytest.mark.spark)
        if path in ALONE:
            item.add_marker(pytest.mark.alone)
        if path in COMPUTING:
            item.add_marker(pytest.mark.computing)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        if shutil.which(mark.args[0]) is None:
            pytest.skip(f"{mark.args[0]} is not installed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        terminalreporter.write_line("Skipped: nothing.")
        return
    terminalreporter.write_line("Skipped, and why:")
    for report in skipped:
        terminalreporter.write_line(f"  {report.nodeid}: {report.longrepr[2]}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Under CI a skip is a failure, unless the list in the repository allows it."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None or exitstatus != 0:
        return
    allowed = allowed_skips()
    for report in reporter.stats.get("skipped", []):
        if not any(part in report.nodeid for part in allowed):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            reporter.write_line(
                f"CI: {report.nodeid} was skipped and is not on {ALLOWED_SKIPS.name}"
            )


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes files into a project of their own and gives the last path."""
    (tmp_path / "millrace.toml").touch()

    def write_files(text: str = "", name: str = "pipeline.yaml", **others: str) -> Path:
        for other, content in others.items():
            path = tmp_path / other.replace("__", "/").replace("_yaml", ".yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write_files


@pytest.fixture
def loads(write: Callable[..., Path]) -> Callable[..., Loaded]:
    """Return a function that loads a text as a file."""

    def load_text_as_file(
        text: str, *, profile: str | None = None, trace: bool = False, **others: str
    ) -> Loaded:
        return load(write(text, **others), profile=profile, trace=trace)

    return load_text_as_file


@pytest.fixture(scope="session")
def folders() -> Folders:
    """Return the folders of this user; the cache holds the jars, or gets them."""
    return Folders.of()


@pytest.fixture(scope="session")
def java(folders: Folders) -> Java:
    return find_java(folders.cache)


@pytest.fixture(scope="session")
def jars(folders: Folders, java: Java) -> Path:
    """Return the folder of the jars of a Kafka, prepared to start quickly."""
    found = fetch_jars(["kafka"], java, folders.cache)[0]
    write_archive(java, found, print)
    return found


@pytest.fixture(scope="module")
def kafka(
    tmp_path_factory: pytest.TempPathFactory, java: Java, jars: Path
) -> Iterator[ManagedKafka]:
    """Run a Kafka for the tests of a module; none of its processes is left."""
    place = tmp_path_factory.mktemp("kafka")
    broker = ManagedKafka(place, java, jars)
    broker.start()
    pid = broker.status().pid
    assert pid is not None
    try:
        yield broker
    finally:
        broker.stop()
        left = session_members(pid)
        shutil.rmtree(place)
        assert left == []


def only(loaded: Loaded) -> Diagnostic:
    """Return the one problem of a load."""
    assert len(loaded.diagnostics) == 1, [
        f"{item.at} {item.code}: {item.message}" for item in loaded.diagnostics
    ]
    return loaded.diagnostics[0]
