"""`millrace new`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from millrace.cli.output import fail, say
from millrace.model.types import NAME
from millrace.spec.schema import schema

#: Templates end like this, so that nobody takes them for modules of Millrace.
_SUFFIX = ".template"
_SCHEMA = "pipeline.schema.json"


def new(
    name: Annotated[str, typer.Argument(help="The project's name, and that of its folder.")],
    folder: Annotated[
        Path, typer.Option("--dir", help="Where to make the folder; here by default.")
    ] = Path(),
) -> None:
    """Make a small project that runs: a pipeline, its jobs, a test of them and sample records.

    Example: [bold]millrace new traffic[/bold]
    """
    if not NAME.fullmatch(name):
        fail(
            f"{name!r} can't be the name of a pipeline",
            "use letters, digits, _, -, . and @, a letter or digit first; --dir says where",
        )
    place = folder / name
    try:
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            fail(f"{place} is there already", "choose another name, or empty it first")
        place.mkdir(parents=True, exist_ok=True)
        for file, text in _project(name):
            (place / file).write_text(text, encoding="utf-8")
            say(f"wrote {place / file}")
    except OSError as error:
        fail(f"{place} can't be made: {error.strerror}", "choose another folder with --dir")
    say(f"next: cd {place} && millrace run pipeline.yaml; {place / 'README.md'} says what to try")


def _project(name: str) -> Iterator[tuple[str, str]]:
    """The files of a new project with their texts."""
    templates = files("millrace.cli") / "templates"
    for template in sorted(templates.iterdir(), key=lambda item: item.name):
        if template.name.endswith(_SUFFIX):
            text = template.read_text(encoding="utf-8")
            yield template.name.removesuffix(_SUFFIX), text.replace("{{name}}", name)
    yield _SCHEMA, json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
