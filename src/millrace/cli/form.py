"""The forms of what a coordinator tells: a table for people, JSON and YAML for programs, names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from millrace.cli.output import show_json

#: In a pipe nothing is wrapped or cut.
_PIPE_WIDTH = 2000


class Form(StrEnum):
    """How a result is written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


FormOption = Annotated[
    Form,
    typer.Option("--output", "-o", help="table for people; json, yaml or name for programs."),
]


def show_table(table: Table) -> None:
    """Print a table: to the width of a terminal, or whole."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    console.print(table)


def show_data(document: Any, form: Form, names: Sequence[str] = ()) -> None:
    """Print a result for programs; `names` are what it is called."""
    if form is Form.NAME:
        sys.stdout.write("".join(f"{name}\n" for name in names))
    elif form is Form.YAML:
        from millrace.spec.yaml_writer import write_yaml  # noqa: PLC0415 - most ask for a table

        sys.stdout.write(write_yaml(document))
    else:
        show_json(document)
