"""Where output goes: data to stdout, what is said about it to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from millrace.cli.views.diagnostics import diagnostics_text
from millrace.errors import Diagnostic, Location, Problems
from millrace.model.pipeline import Pipeline
from millrace.model.quantity import Duration
from millrace.spec import FileFormat, Loaded, load, load_text
from millrace.spec.source import MOST_BYTES, decode
from millrace.wire import diagnostic_document


class Output(StrEnum):
    """The two forms of every result."""

    TEXT = "text"
    JSON = "json"


def show(text: Text | str) -> None:
    """Print a result for people; long lines stay whole when it goes to a file."""
    console = Console(soft_wrap=True, highlight=False)
    console.print(text if isinstance(text, Text) else Text(text), end="")


def show_json(document: Any) -> None:
    """Print a result for programs."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write(text: str, out: Path | None) -> None:
    """Write a made file to a path, or to stdout."""
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{out} can't be written: {error.strerror}", "give another path with --out")
    say(f"wrote {out}")


def say(text: str) -> None:
    """Tell something beside the result; that nobody listens any more ends nothing.

    A terminal, or the program behind a pipe, may be gone while there is something to stop.
    """
    with suppress(OSError):
        _Aside(stderr=True, soft_wrap=True, highlight=False).print(Text(text))


class _Aside(Console):
    """What is told beside the result; rich itself would end the program, and take its stdout."""

    def on_broken_pipe(self) -> None:
        """Be quiet from now on."""
        self.quiet = True


def fail(message: str, hint: str) -> None:
    """End with an error that says what to do."""
    problem = Diagnostic("failed", message, hint=hint)
    Console(stderr=True, soft_wrap=True, highlight=False).print(
        diagnostics_text([problem], {}), end=""
    )
    raise typer.Exit(1)


def show_problems(
    diagnostics: Sequence[Diagnostic], loaded: Sequence[Loaded], output: Output
) -> None:
    """Show problems of some files: for people on stderr, for programs as the one result."""
    sources = {name: text for item in loaded for name, text in item.sources.items()}
    left_out = sum(item.left_out for item in loaded)
    if output is Output.JSON:
        show_json(
            {
                "valid": False,
                "left_out": left_out,
                "diagnostics": [diagnostic_document(item) for item in diagnostics],
            }
        )
        return
    Console(stderr=True, soft_wrap=True, highlight=False).print(
        diagnostics_text(diagnostics, sources, left_out), end=""
    )


def loaded_file(
    file: str, profile: str | None, file_format: FileFormat | None = None, *, trace: bool = False
) -> Loaded:
    """Load a file, or stdin for `-`."""
    if file != "-":
        return load(file, profile=profile, file_format=file_format, trace=trace)
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        at = Location("<stdin>")
        told = Diagnostic("too-large", "more than 10 MiB on stdin", at, hint="give it as a file")
        return Loaded(None, (told,))
    problems = Problems()
    text = decode(data, "<stdin>", problems)
    if text is None:
        return Loaded(None, tuple(problems))
    return load_text(text, "<stdin>", profile=profile, file_format=file_format, trace=trace)


def loaded_pair(
    file: str,
    profile: str | None,
    old: str | None,
    old_profile: str | None,
    file_format: FileFormat | None,
    output: Output,
) -> tuple[Pipeline, Pipeline | None]:
    """Load what is wanted and what is there, or show every problem of both and end.

    Without a profile of its own the old file takes the new one's, where it has a profile of that
    name, and else its default.
    """
    wanted = loaded_file(file, profile, file_format)
    before = None
    if old is not None:
        before = loaded_file(old, old_profile or profile)
        unknown = any(item.code == "unknown-profile" for item in before.diagnostics)
        if unknown and old_profile is None and old != "-":
            before = loaded_file(old, None)
    failed = [loaded for loaded in (wanted, before) if loaded and loaded.pipeline is None]
    if failed:
        told = list(dict.fromkeys(item for loaded in failed for item in loaded.diagnostics))
        show_problems(told, failed, output)
        raise typer.Exit(1)
    return wanted.required(), before.required() if before is not None else None


def required(loaded: Loaded, output: Output) -> Pipeline:
    """Return the pipeline, or show every problem and end."""
    if loaded.pipeline is None:
        show_problems(loaded.diagnostics, [loaded], output)
        raise typer.Exit(1)
    return loaded.pipeline


def time_option(text: str) -> float:
    """Read a duration as seconds; typer shows what is wrong with one."""
    duration = Duration.parse(text)
    if duration is None:
        raise typer.BadParameter(f"{text!r} is not {Duration.EXPECTED}")
    return float(duration.seconds)
