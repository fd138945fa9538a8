"""Files of somebody who means harm: refused by a fresh process within a second and 200 MB.

On a machine that is slower than usual the second is longer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("load_alone.py")
MOST_SECONDS = 1.0
MOST_MEMORY = 200_000_000
DEEP = 10_000
LARGE = 100_000_000
#: Makes the files of an attack below a folder and returns the one to load.
Attack = Callable[[Path], Path]


def alone(path: Path) -> dict[str, Any]:
    """Return what came of a load in a fresh process that nobody traces; see `load_alone`."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def text(content: str | bytes, **others: str) -> Attack:
    """Return an attack by one text, with other files beside it."""

    def make(folder: Path) -> Path:
        for name, other in others.items():
            (folder / f"{name}.yaml").write_text(other)
        path = folder / "pipeline.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def including(name: str) -> Attack:
    return text(f"pipeline: p\ninclude: [{json.dumps(name)}]\n")


def linked(target: str, name: str) -> Attack:
    """Return an attack by a link in the project, and by what lies outside of it."""

    def make(folder: Path) -> Path:
        (folder.parent / "outside.yaml").write_text("streams: {stolen: {}}\n")
        (folder / "link").symlink_to(folder / target)
        return including(name)(folder)

    return make


def sized(size: int, start: bytes, *, by: str = "") -> Attack:
    """Return an attack by a large file, itself or as what a small one includes."""

    def make(folder: Path) -> Path:
        path = folder / (by or "pipeline.yaml")
        with path.open("wb") as file:
            file.write(start)
            file.truncate(size)
        return including(by)(folder) if by else path

    return make


def written(size: int) -> Attack:
    """Return an attack by a large file of which each line is fine."""

    def make(folder: Path) -> Path:
        lines = "".join(f"  stream-{n:09}: {{partitions: 1}}\n" for n in range(10_000))
        path = folder / "pipeline.yaml"
        with path.open("w") as file:
            file.write("pipeline: p\nstreams:\n")
            file.writelines(lines for _ in range(size // len(lines) + 1))
        return path

    return make


def laughs(levels: int, width: int) -> str:
    lines = ["pipeline: p", "constants:", "  a0: &a0 [" + ", ".join(["lol"] * width) + "]"]
    lines += [
        f"  a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * width) + "]" for n in range(1, levels)
    ]
    return "\n".join(lines)


def chain(line: str, count: int) -> Attack:
    """Return an attack by files each of which includes the next, whose number stands for %."""

    def make(folder: Path) -> Path:
        for n in range(count):
            (folder / f"f{n}.yaml").write_text(line.replace("%", str(n + 1)))
        (folder / f"f{count}.yaml").touch()
        return folder / "f0.yaml"

    return make


def many(folder: Path) -> Path:
    for n in range(1_001):
        (folder / f"f{n}.yaml").write_text("sites: {}\n")
    return text("pipeline: p\ninclude: " + json.dumps([f"f{n}.yaml" for n in range(1_001)]))(folder)


def looped(folder: Path) -> Path:
    (folder / "link").symlink_to(folder / "link")
    return including("link")(folder)


def endless(_folder: Path) -> Path:
    return Path("/dev/zero")


def piped(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return including("pipe")(folder)


SKEPU = "application {{ id: x workflow: [] y: {} }}"
HIDDEN = "[" * 180 + '{ #include "f%.yaml" }' + "]" * 180
TWICE = "pipeline: p\nstreams: {s: {}}\nstreams: {t: {}}\n"
ATTACKS: dict[str, tuple[str, Attack]] = {
    "bomb of lists": ("alias-budget", text(laughs(10, 10))),
    "bomb of few and many": ("alias-budget", text(laughs(60, 2))),
    "bomb of maps": (
        "alias-budget",
        text(
            "pipeline: p\nconstants:\n  a0: &a0 {k: v}\n"
            + "".join(
                f"  a{n}: &a{n} {{a: *a{n - 1}, b: *a{n - 1}, c: *a{n - 1}}}\n"
                for n in range(1, 30)
            )
        ),
    ),
    "bomb of one long list": (
        "alias-budget",
        text("pipeline: p\nconstants:\n  a: &a [" + "1, " * 40_000 + "1]\n  b: [*a, *a, *a, *a]\n"),
    ),
    "bomb that holds itself": ("bad-alias", text("pipeline: p\nconstants: &a {b: [*a, *a]}\n")),
    "bomb of merged keys": ("merge-key", text("pipeline: p\nconstants: {<<: {<<: {<<: {a: 1}}}}")),
    "deep lists": (
        "too-deep",
        text("pipeline: p\nconstants: {a: " + "[" * DEEP + "]" * DEEP + "}"),
    ),
    "deep lists without end": ("too-deep", text("[" * DEEP)),
    "deep maps": ("too-deep", text("pipeline: p\nconstants: " + "{a: " * DEEP + "1" + "}" * DEEP)),
    "deep dashes": ("too-deep", text("pipeline: p\nconstants:\n " + "- " * DEEP + "1\n")),
    "deep keys": ("syntax", text("pipeline: p\nconstants:\n " + "? " * DEEP + "1\n")),
    "deep lines": (
        "too-deep",
        text("pipeline: p\nconstants:\n" + "".join(" " * n + "a:\n" for n in range(1, 4_400))),
    ),
    "deep lists of JSON": ("too-deep", text('{"pipeline": ' + "[" * DEEP + "]" * DEEP + "}")),
    "deep maps of JSON": ("too-deep", text('{"a": ' * DEEP + "1" + "}" * DEEP)),
    "deep lists of SkePU": ("too-deep", text(SKEPU.format("[" * DEEP + "]" * DEEP))),
    "deep sums of SkePU": ("too-deep", text(SKEPU.format("(1 + " * DEEP + "1" + ")" * DEEP))),
    "deep signs of SkePU": ("too-deep", text(SKEPU.format("-" * DEEP + "1"))),
    "circle of one": ("include-cycle", including("pipeline.yaml")),
    "circle of two": (
        "include-cycle",
        text("pipeline: p\ninclude: a.yaml", a="include: b.yaml", b="include: a.yaml"),
    ),
    "circle of SkePU": (
        "include-cycle",
        text('#include "a.yaml"\napplication { id: x }', a='#include "a.yaml"\n'),
    ),
    "chain of includes": ("too-deep", chain("include: f%.yaml\n", 900)),
    "chain of SkePU": ("too-deep", chain('#include "f%.yaml"\n', 900)),
    "deep chain of SkePU": ("too-deep", chain(SKEPU.format(HIDDEN), 9)),
    "many includes": ("too-many-files", many),
    "up": ("include-escape", including("../..")),
    "up to a file": ("include-escape", including("../outside.yaml")),
    "far up": ("include-escape", including("../" * 40 + "etc/passwd")),
    "absolute": ("include-escape", including("/etc/passwd")),
    "up, in SkePU": ("include-escape", text('#include "../outside.yaml"\napplication { id: x }')),
    "link to a file": ("include-escape", linked("../outside.yaml", "link")),
    "link to a folder": ("include-escape", linked("..", "link/outside.yaml")),
    "link to itself": ("include-escape", looped),
    "link to a device": ("include-escape", linked("/dev/zero", "link")),
    "pipe": ("unreadable", piped),
    "folder": ("unreadable", including(".")),
    "address": ("include-url", including("https://example.org/pipeline.yaml")),
    "address of this machine": ("include-url", including("HTTP://127.0.0.1:9/x")),
    "address of the cloud": ("include-url", including("http://169.254.169.254/latest/meta-data")),
    "address of a file": ("include-url", including("file:///etc/passwd")),
    "address without a scheme": ("include-escape", including("//example.org/x.yaml")),
    "address, in SkePU": ("include-url", text('#include "http://h/x"\napplication { id: x }')),
    "large": ("too-large", written(LARGE)),
    "large and empty": ("too-large", sized(LARGE, b"pipeline: p\n")),
    "large by an include": ("too-large", sized(LARGE, b"sites: {}\n#", by="large.yaml")),
    "without end": ("too-large", endless),
    "key twice": ("duplicate-key", text(TWICE)),
    "key often": ("duplicate-key", text("pipeline: p\nconstants:\n" + "  a: 1\n" * 50_000)),
    "key twice in JSON": ("duplicate-key", text('{"pipeline": "p", "pipeline": "q"}')),
    "NUL": ("bad-character", text(b"pipeline: p\nstreams: {s\0: {}}\n")),
    "NUL at the end": ("bad-character", text(b"pipeline: p\n" + b"# x\n" * 1_000_000 + b"\0")),
    "only NUL": ("bad-character", sized(10_000_000, b"")),
    "16 bits a letter": ("encoding", text("pipeline: p\n".encode("utf-16"))),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_at_once(name: str, tmp_path: Path) -> None:
    code, attack = ATTACKS[name]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "millrace.toml").touch()
    path = attack(tmp_path / "project")
    found = alone(path)
    assert not found["loads"]
    assert code in found["codes"]
    assert found["problems"] == len(found["places"]) == len(found["hints"])
    assert found["asked"] == []
    assert found["seconds"] < MOST_SECONDS * found["pace"]
    assert found["peak"] < MOST_MEMORY
    if path.stat().st_size >= LARGE:
        path.unlink()
