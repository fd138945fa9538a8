"""The job of chains on Flink, compiled when it is needed: `java` holds its source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from millrace.engines.flink.cluster import libraries
from millrace.errors import OperationFailed
from millrace.machine import Java, fetch_jars

ENTRY: Final = "millrace.speck.PassOn"
SOURCES: Final = Path(__file__).with_name("java")
#: What the oldest Java that Millrace runs on understands.
_RELEASE: Final = "17"
_COMPILE_SECONDS: Final = 180.0


def compiled(folder: Path, java: Java, cache: Path) -> Path:
    """Return a jar with the job and its client of MQTT, made in a folder."""
    compiler = javac(java)
    flink = libraries()
    (client,) = fetch_jars(["mqtt-client"], java, cache, file=SOURCES / "ivy.xml")
    classes = folder / "classes"
    for jar in client.glob("*.jar"):
        shutil.unpack_archive(jar, classes, "zip")
    path = ":".join((f"{flink}/*", str(classes)))
    command = [compiler, "-proc:none", "-nowarn", "--release", _RELEASE, "-cp", path]
    _compile([*command, "-d", str(classes), *map(str, sorted(SOURCES.rglob("*.java")))])
    made = Path(shutil.make_archive(str(folder / "pass-on"), "zip", classes))
    return made.rename(made.with_suffix(".jar"))


def javac(java: Java) -> str:
    """Return Java's compiler, beside Java or on the path; raises with the way out without one."""
    found = shutil.which("javac", path=str(java.home / "bin")) or shutil.which("javac")
    if found is None:
        raise OperationFailed(
            "no-javac",
            "there is no javac, and the job of chains on Flink is compiled here",
            "install a JDK (apt-get install openjdk-17-jdk-headless), or use engine=spark",
        )
    return found


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - Java's own compiler, no shell
            command, check=False, capture_output=True, text=True, timeout=_COMPILE_SECONDS
        )
        said = "" if done.returncode == 0 else done.stderr.strip() or f"code {done.returncode}"
    except subprocess.TimeoutExpired:
        said = f"it does not end within {_COMPILE_SECONDS:.0f} s"
    if said:
        raise OperationFailed("not-compiled", f"{command[0]} could not compile the job: {said}")
