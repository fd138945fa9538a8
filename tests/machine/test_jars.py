"""Jars are fetched once, by one, whole or not at all; here from a repository of this machine."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from millrace.errors import OperationFailed
from millrace.machine import Java, fetch_jars
from millrace.machine.jars import IVY_FILE, configurations

LIMIT = 60.0
NO_JAVA = Java(Path("/nowhere"), 17)
SETTINGS = """<ivysettings>
  <settings defaultResolver="local"/>
  <resolvers>
    <filesystem name="local" m2compatible="true">
      <artifact pattern="{place}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
      <ivy pattern="{place}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>{org}</groupId><artifactId>{name}</artifactId><version>{rev}</version></project>
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty repository that Ivy is told to use alone."""
    place = tmp_path / "repository"
    place.mkdir()
    (tmp_path / "settings.xml").write_text(SETTINGS.format(place=place))
    monkeypatch.setenv("MILLRACE_IVY_SETTINGS", str(tmp_path / "settings.xml"))
    return place


def publish(place: Path) -> None:
    """Put a jar into the repository for everything that Millrace needs, without its needs."""
    for item in ElementTree.parse(IVY_FILE).iter("dependency"):  # noqa: S314 - our own file
        org, name, rev = (item.attrib[key] for key in ("org", "name", "rev"))
        folder = place / org.replace(".", "/") / name / rev
        folder.mkdir(parents=True)
        (folder / f"{name}-{rev}.pom").write_text(POM.format(org=org, name=name, rev=rev))
        with zipfile.ZipFile(folder / f"{name}-{rev}.jar", "w") as jar:
            jar.writestr("content", name)


def test_what_is_there_is_given_without_starting_anything(jars: Path, java: Java) -> None:
    cache = jars.parents[2]
    told: list[tuple[int, int]] = []
    found = fetch_jars(["spark-kafka", "kafka"], NO_JAVA, cache, lambda *n: told.append(n))
    assert [folder.name for folder in found] == ["spark-kafka", "kafka"]
    assert all(any(folder.glob("kafka-clients-*.jar")) for folder in found)
    assert told == []


def test_a_set_that_is_not_known_is_told(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        fetch_jars(["kafka", "nix"], NO_JAVA, tmp_path)
    assert caught.value.code == "unknown-jars"
    assert "nix" in caught.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("repository")
def test_what_can_not_be_fetched_leaves_nothing_half_made(java: Java, tmp_path: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        fetch_jars(["kafka"], java, tmp_path / "cache")
    assert caught.value.code == "jars-not-fetched"
    assert "MILLRACE_IVY_SETTINGS" in caught.value.hint
    assert caught.value.transient
    assert [path.name for path in (tmp_path / "cache" / "jars").iterdir()] == ["lock"]


FETCH = """
import sys
from pathlib import Path
from millrace.machine import Java, fetch_jars
home, version, cache = sys.argv[1:]
told = []
java = Java(Path(home), int(version))
found = fetch_jars(["kafka"], java, Path(cache), lambda *n: told.append(n))
print(found[0], len(told))
"""


def test_of_two_at_once_one_fetches(repository: Path, java: Java, tmp_path: Path) -> None:
    publish(repository)
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", FETCH, str(java.home), str(java.version), str(cache)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=LIMIT)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    (one, first), (two, second) = said
    assert one == two
    assert sorted([int(first) > 0, int(second) > 0]) == [False, True]
    names = {path.name for path in Path(one).parent.glob("*/*.jar")}
    assert "kafka_2.13-4.1.0.jar" in names
    made = {path.name for path in (cache / "jars").iterdir()}
    assert made == {"lock", Path(one).parent.name}
    assert {path.name for path in Path(one).parent.iterdir()} == set(configurations())


def test_a_fetch_tells_how_far_it_is(repository: Path, java: Java, tmp_path: Path) -> None:
    publish(repository)
    told: list[tuple[int, int]] = []
    fetch_jars(["kafka"], java, tmp_path / "cache", lambda done, of: told.append((done, of)))
    assert [done for done, _ in told[:-1]] == list(range(1, len(told)))
    assert told[-1][0] == told[-1][1] == len(told) - 1 == 7
