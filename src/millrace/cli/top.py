"""`millrace top`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from millrace.cli.connection import remote
from millrace.cli.form import Form, FormOption, show_data, show_table
from millrace.cli.output import say
from millrace.cli.views.listing import LISTINGS
from millrace.cli.views.rates import rates_table
from millrace.client import Client

Key = tuple[str, str]


@dataclass(slots=True)
class Board:
    """The jobs as they were last told, and when the last batch of each ended."""

    jobs: dict[Key, dict[str, Any]] = field(default_factory=dict)

    def fetched(self, client: Client) -> None:
        """Take all jobs anew."""
        found = [job for one in client.pipelines() for job in client.jobs(one["name"])]
        self.jobs = {(job["pipeline"], job["name"]): job for job in found}

    def told(self, metrics: Mapping[str, Any]) -> bool:
        """Take what the coordinator tells; returns whether these are other jobs than known."""
        keys = {(item["pipeline"], item["name"]) for item in metrics["jobs"]}
        for item in metrics["jobs"]:
            job = self.jobs.get((item["pipeline"], item["name"]))
            if job is not None:
                at = metrics["at"] if item["batch"] != job["batch"] else job["at"]
                job.update(item, at=at)
        return keys != self.jobs.keys()


@remote
def top(
    client: Client,
    once: Annotated[bool, typer.Option("--once", help="Show it once and end.")] = False,
    output: FormOption = Form.TABLE,
) -> None:
    """Show all jobs with their rates, lags and the age of their last batch, until Ctrl-C.

    Where nobody looks, in a pipe, it is shown once.

    Example: [bold]millrace top --once[/bold]
    """
    board = Board()
    board.fetched(client)
    console = Console(highlight=False)
    if output is not Form.TABLE:
        names = ["/".join(key) for key in board.jobs]
        show_data(list(board.jobs.values()), output, names)
    elif once or not console.is_terminal:
        if board.jobs:
            show_table(rates_table(board.jobs.values(), time.time()))
    else:
        _live(client, board, console)
    if not board.jobs:
        say(LISTINGS["jobs"].empty)


def _live(client: Client, board: Board, console: Console) -> None:
    with Live(console=console, auto_refresh=False) as live:

        def shown(note: str = "") -> None:
            live.update(rates_table(board.jobs.values(), time.time(), note), refresh=True)

        shown()
        for kind, _, data in client.events(metrics=2, told=lambda failure: shown(failure.message)):
            if kind == "metrics":
                if board.told(data):
                    board.fetched(client)
                shown()
