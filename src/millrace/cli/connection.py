"""What commands share that ask a coordinator: where it is, and what becomes of a refusal."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from millrace.cli.output import fail
from millrace.cli.views.diagnostics import diagnostics_text
from millrace.cli.views.problems import diagnostics_of
from millrace.client import Client, Refused, Settings
from millrace.errors import OperationFailed

_PANEL = "Where the coordinator is"
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The coordinator's address; also by MILLRACE_SERVER. By default that of this machine.",
        rich_help_panel=_PANEL,
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="The file with your token; also by MILLRACE_TOKEN_FILE.",
        rich_help_panel=_PANEL,
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="CA",
        help="The only certificate to trust, in PEM; also by MILLRACE_CERTIFICATE.",
        rich_help_panel=_PANEL,
    ),
]
#: As that of all commands, among its like.
HomeHereOption = Annotated[
    Path | None,
    typer.Option(
        "--home",
        help="Where the coordinator of this machine keeps its state; also by MILLRACE_HOME.",
        rich_help_panel=_PANEL,
    ),
]
#: The options by their names in `Settings.of`, each None where it is not given.
WHERE: dict[str, Any] = {
    "server": ServerOption,
    "token_file": TokenFileOption,
    "certificate": CertificateOption,
    "home": HomeHereOption,
}


def remote(command: Callable[..., None], error: int = 1) -> Callable[..., None]:
    """Give a command the options of where the coordinator is, and with them its `client`.

    What is refused or can't be reached ends it with a message, the way out and the code of `error`.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [item for item in signature.parameters.values() if item.name != "client"]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in WHERE.items()
    ]

    @wraps(command)
    def connected(**given: Any) -> None:
        where = {name: given.pop(name) for name in WHERE}
        with failures_told(error), Client(settings_of(**where)) as client:
            command(client=client, **given)

    own = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own]
    whole = signature.replace(parameters=[*own, *more])
    connected.__signature__ = whole  # type: ignore[attr-defined]
    connected.__annotations__ = {item.name: item.annotation for item in [*own, *more]}
    return connected


def settings_of(
    server: str | None, token_file: Path | None, certificate: Path | None, home: Path | None
) -> Settings:
    """Return where the coordinator is; raises where that is not known."""
    return Settings.of(server, token_file, certificate, home)


@contextmanager
def failures_told(code: int = 1) -> Iterator[None]:
    """End with a message and the way out for what fails in the block, and with an exit code."""
    try:
        yield
    except OperationFailed as failure:
        try:
            tell(failure)
        except typer.Exit:
            raise typer.Exit(code) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def tell(failure: OperationFailed) -> None:
    """End with what is wrong, and all problems of a file where the coordinator found some."""
    problems = diagnostics_of(failure.document) if isinstance(failure, Refused) else []
    if problems:
        text = diagnostics_text(problems, {})
        Console(stderr=True, soft_wrap=True, highlight=False).print(text, end="")
    fail(failure.message, failure.hint or "millrace events tells what happened")


def job_parts(text: str, what: str = "JOB") -> tuple[str, str]:
    """Return the two names of PIPELINE/JOB or PIPELINE/STREAM; raises for another text."""
    pipeline, slash, name = text.partition("/")
    if not (slash and pipeline and name):
        raise OperationFailed(
            "bad-name",
            f"{text!r} does not name a pipeline and its {what.lower()}",
            f"write PIPELINE/{what}; millrace get {what.lower()}s lists them",
        )
    return pipeline, name
