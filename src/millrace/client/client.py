"""The client: a method for each resource of the API."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from millrace.client.settings import Settings
from millrace.errors import OperationFailed
from millrace.machine.web import Answer, Event, Limits, Params, Web, at, no_coordinator

#: What the API answers with: see the views of the coordinator.
Document = dict[str, Any]
_PAGE = 500
#: For how long a coordinator may be away while a change is waited for, in seconds.
_PATIENCE = 60.0


class Client:
    """A coordinator, asked over its API; any thread may call. To be closed, or used with `with`."""

    def __init__(self, settings: Settings, limits: Limits | None = None) -> None:
        self.settings = settings
        self._web = Web(settings.url, settings.token, settings.certificate, limits)

    @classmethod
    def local(cls, home: Path | None = None) -> Client:
        """Return the client of the coordinator on this machine."""
        return cls(Settings.local(home))

    @classmethod
    def of(
        cls,
        server: str | None = None,
        token_file: Path | None = None,
        certificate: Path | None = None,
    ) -> Client:
        """Return the client of a coordinator anywhere; what is not given is by the environment."""
        return cls(Settings.of(server, token_file, certificate))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.settings.url!r})"

    def close(self) -> None:
        """Let go of all connections."""
        self._web.close()

    # Pipelines

    def pipelines(self) -> list[Document]:
        """Return all pipelines."""
        return self._list(at("pipelines"))

    def pipeline(self, name: str) -> Document:
        """Return a pipeline."""
        return self._one(at("pipelines", name))

    def plan(
        self,
        document: Document,
        *,
        allow_state_loss: bool = False,
        lost_sites: Sequence[str] = (),
    ) -> Document:
        """Return what a native document would change; nothing is changed."""
        body = {
            "document": document,
            "code": None,
            "allow_state_loss": allow_state_loss,
            "lost_sites": list(lost_sites),
        }
        path = at("pipelines", str(document["pipeline"]), "plan")
        return _document(self._web.post(path, body))

    def apply(
        self,
        document: Document,
        *,
        code: str | None = None,
        note: str = "",
        allow_state_loss: bool = False,
        lost_sites: Sequence[str] = (),
        if_revision: int | None = None,
        key: str | None = None,
    ) -> Document:
        """Begin to make a pipeline what a native document says; returns the operation.

        Of `lost_sites` the caller vouches that they are down.

        `code` is what `upload_code` returned. `if_revision` is the revision that the change is made
        for, 0 for none; another one that came meanwhile is refused. The same `key` again changes
        nothing more; by default each call has its own, and is asked again where an answer got lost.
        """
        body = {
            "document": document,
            "code": code,
            "note": note,
            "allow_state_loss": allow_state_loss,
            "lost_sites": list(lost_sites),
        }
        path = at("pipelines", str(document["pipeline"]))
        return _again(lambda headers: self._web.put(path, body, headers), if_revision, key)

    def delete(
        self, pipeline: str, *, if_revision: int | None = None, key: str | None = None
    ) -> Document:
        """Begin to remove a pipeline with all that it has; returns the operation."""
        path = at("pipelines", pipeline)
        return _again(lambda headers: self._web.delete(path, headers), if_revision, key)

    def rollback(
        self,
        pipeline: str,
        revision: int,
        *,
        note: str = "",
        allow_state_loss: bool = False,
        if_revision: int | None = None,
        key: str | None = None,
    ) -> Document:
        """Begin to put an old file in force again, as a new revision; returns the operation."""
        body = {"revision": revision, "note": note, "allow_state_loss": allow_state_loss}
        path = at("pipelines", pipeline, "rollback")
        return _again(lambda headers: self._web.post(path, body, headers), if_revision, key)

    def revisions(self, pipeline: str) -> list[Document]:
        """Return the versions of a pipeline's file, the newest first."""
        return self._list(at("pipelines", pipeline, "revisions"))

    def file(self, pipeline: str, revision: int | None = None) -> Document:
        """Return the native document of a revision; by default of the one in force."""
        return self._one(at("pipelines", pipeline, "file"), {"revision": revision})

    # What runs

    def jobs(self, pipeline: str) -> list[Document]:
        """Return the jobs of a pipeline."""
        return self._list(at("pipelines", pipeline, "jobs"))

    def job(self, pipeline: str, name: str) -> Document:
        """Return a job."""
        return self._one(at("pipelines", pipeline, "jobs", name))

    def log(self, pipeline: str, job: str, after: int = -1, most: int = 65536) -> Document:
        """Return a piece of a job's log behind a position, or its end; `next` is where to go on."""
        path = at("pipelines", pipeline, "jobs", job, "log")
        return self._one(path, {"after": after, "most": most})

    def streams(self, pipeline: str) -> list[Document]:
        """Return the streams of a pipeline."""
        return self._list(at("pipelines", pipeline, "streams"))

    def stream(self, pipeline: str, name: str) -> Document:
        """Return a stream."""
        return self._one(at("pipelines", pipeline, "streams", name))

    def records(self, pipeline: str, stream: str, most: int = 10) -> list[Document]:
        """Return the last records of a stream."""
        path = at("pipelines", pipeline, "streams", stream, "records")
        return _items(self._web.get(path, {"most": most}))

    def sites(self) -> list[Document]:
        """Return all sites."""
        return self._list(at("sites"))

    def site(self, name: str) -> Document:
        """Return a site."""
        return self._one(at("sites", name))

    # Changes

    def operations(self) -> list[Document]:
        """Return all changes that are known, the newest first."""
        return self._list(at("operations"))

    def operation(self, identity: str, wait: int = 0) -> Document:
        """Return a change; with `wait` (at most 30) when it is over, or after so many seconds."""
        path, seconds = at("operations", identity), wait + 15.0
        return _document(self._web.get(path, {"wait": wait}, seconds=seconds))

    def wait(
        self,
        operation: str,
        seconds: float | None = None,
        told: Callable[[Document], object] | None = None,
    ) -> Document:
        """Return a change when it is over, or as it is after so many seconds.

        `told` hears of it about each second. A coordinator that is away for less than a minute,
        because it is started anew, is waited for.
        """
        until = None if seconds is None else time.monotonic() + seconds
        away: float | None = None
        while True:
            left = 30.0 if until is None else max(until - time.monotonic(), 0.0)
            try:
                view = self.operation(operation, int(min(left, 20.0 if told is None else 1.0)))
            except OperationFailed as failure:
                away = time.monotonic() if away is None else away
                if not failure.transient or time.monotonic() - away > min(_PATIENCE, left):
                    raise
                time.sleep(0.5)
                continue
            away = None
            if told is not None:
                told(view)
            if view["over"] or left <= 0:
                return view
            if left < 1:  # the API waits for whole seconds
                time.sleep(min(left, 0.2))

    # What happened

    def journal(self, after: int = 0, limit: int | None = None) -> Iterator[Document]:
        """Give the entries of the journal behind a number, in order, as many as asked for."""
        given, cursor = 0, None
        while True:
            ask = _PAGE if limit is None else min(_PAGE, limit - given)
            page = self._web.get(at("journal"), {"after": after, "limit": ask, "cursor": cursor})
            items = _items(page)
            yield from items
            given += len(items)
            cursor = page.document.get("next")
            if cursor is None or given == limit:
                return

    def events(
        self,
        after: int | None = None,
        metrics: int = 2,
        told: Callable[[OperationFailed], object] = lambda _: None,
    ) -> Iterator[Event]:
        """Give (kind, number or None, data) without end: `journal` and, so often, `metrics`.

        A connection that breaks is taken up behind the last entry; `told` hears of it.
        """
        return self._web.events(at("events"), {"after": after, "metrics": metrics}, told=told)

    # Tokens

    def whoami(self) -> Document:
        """Return whose token this is."""
        return self._one(at("whoami"))

    def tokens(self) -> list[Document]:
        """Return all tokens, without their secrets."""
        return self._list(at("tokens"))

    def issue_token(
        self,
        name: str,
        role: str = "viewer",
        *,
        pipelines: list[str] | None = None,
        site: str | None = None,
        expires_seconds: int | None = None,
    ) -> Document:
        """Make a token; the answer's `token` is the only time that its text is shown."""
        body = {
            "name": name,
            "role": role,
            "pipelines": pipelines,
            "site": site,
            "expires_seconds": expires_seconds,
        }
        return _document(self._web.post(at("tokens"), body))

    def revoke_token(self, token: str) -> None:
        """Take a token back, by its id."""
        self._web.delete(at("tokens", token))

    # Code

    def upload_code(self, folder: Path) -> str:
        """Make sure that the coordinator has the code of a folder; returns what to give `apply`.

        It is sent only if it is not there yet.
        """
        from millrace.client.code import packed  # noqa: PLC0415 - few calls need it

        archive = packed(folder)
        path = at("artifacts", archive.digest)
        if not self._web.has(path):
            self._web.upload(path, archive.content)
        return archive.digest

    def _one(self, path: str, params: Params | None = None) -> Document:
        return _document(self._web.get(path, params))

    def _list(self, path: str) -> list[Document]:
        """All of a list, page by page."""
        found: list[Document] = []
        cursor = None
        while True:
            page = self._web.get(path, {"limit": _PAGE, "cursor": cursor})
            found += _items(page)
            cursor = page.document.get("next")
            if cursor is None:
                return found


def _again(
    ask: Callable[[dict[str, str]], Answer], if_revision: int | None, key: str | None
) -> Document:
    """Ask for a change, once more where no answer came: its key makes it the same change."""
    headers = {"Idempotency-Key": key or uuid.uuid4().hex}
    if if_revision is not None:
        headers["If-Match"] = f'"{if_revision}"'
    try:
        return _document(ask(headers))
    except OperationFailed as failure:
        if failure.code != "unreachable":
            raise
    return _document(ask(headers))


def _document(answer: Answer) -> Document:
    if not isinstance(answer.document, dict):
        raise no_coordinator()
    return answer.document


def _items(answer: Answer) -> list[Document]:
    items = _document(answer).get("items")
    if not isinstance(items, list):
        raise no_coordinator()
    return items
