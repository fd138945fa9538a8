"""Names for a shell to complete, as the coordinator knows them.

Nothing is said and nothing takes long: where the coordinator does not answer at once, there are no
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from typing import Any

import typer

from millrace.client import Client

#: For how many seconds a shell may be kept waiting.
LIMIT = 0.3


def pipeline_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of pipelines."""
    return _completed(ctx, incomplete, _pipelines)


def operation_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of changes, and of pipelines."""
    return _completed(
        ctx,
        incomplete,
        lambda client: [*(item["id"] for item in client.operations()), *_pipelines(client)],
    )


def job_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return PIPELINE/JOB; pipelines alone as long as none is written."""
    return _completed(ctx, incomplete, lambda client: _parts(client, incomplete, client.jobs))


def stream_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return PIPELINE/STREAM; pipelines alone as long as none is written."""
    return _completed(ctx, incomplete, lambda client: _parts(client, incomplete, client.streams))


def described_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names of what `describe` is asked for."""
    asked: dict[str, Callable[[Client], Iterable[str]]] = {
        "pipeline": _pipelines,
        "job": lambda client: _parts(client, incomplete, client.jobs),
        "stream": lambda client: _parts(client, incomplete, client.streams),
        "site": lambda client: [item["name"] for item in client.sites()],
        "operation": lambda client: [item["id"] for item in client.operations()],
    }
    ask = asked.get(str(ctx.params.get("what")))
    return _completed(ctx, incomplete, ask) if ask is not None else []


def _pipelines(client: Client) -> list[str]:
    return [item["name"] for item in client.pipelines()]


def _parts(
    client: Client, incomplete: str, of_one: Callable[[str], list[dict[str, Any]]]
) -> list[str]:
    pipeline, slash, _ = incomplete.partition("/")
    if not slash:
        return [f"{name}/" for name in _pipelines(client)]
    return [f"{pipeline}/{item['name']}" for item in of_one(pipeline)]


def _completed(
    ctx: typer.Context, incomplete: str, ask: Callable[[Client], Iterable[str]]
) -> list[str]:
    """The names that begin so, if they come in time."""
    found: list[str] = []
    with suppress(Exception):  # a shell must show names or nothing
        client = _client(ctx.params)

        def asking() -> None:
            with suppress(Exception), client:
                found.extend(ask(client))

        # A thread that may be left behind: no limit of a connection covers looking a host up.
        thread = Thread(target=asking, daemon=True)
        thread.start()
        thread.join(LIMIT)
    return sorted(name for name in list(found) if name.startswith(incomplete))


def _client(given: dict[str, Any]) -> Client:
    from millrace.cli.connection import WHERE, settings_of  # noqa: PLC0415 - most need none
    from millrace.machine.web import Limits  # noqa: PLC0415

    settings = settings_of(**{name: given.get(name) for name in WHERE})
    return Client(settings, Limits(LIMIT, LIMIT, LIMIT))
