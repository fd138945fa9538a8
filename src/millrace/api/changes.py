"""Changes of pipelines: on what condition, asked how often, and how they are answered."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Header, Response
from fastapi import Request as HttpRequest

from millrace.api.bodies import Brought
from millrace.api.desk import Desk
from millrace.api.problems import Problem
from millrace.coordinator.requests import Request
from millrace.coordinator.revision import Submission
from millrace.coordinator.tokens import Identity, Role
from millrace.coordinator.views import OperationView
from millrace.errors import OperationFailed
from millrace.model.outside import is_inner
from millrace.model.pipeline import Pipeline
from millrace.stores import archive

_REVISION = re.compile(r'"(0|[1-9][0-9]{0,9})"')
_KEY = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The revision that a change is made for, and the key under which it is asked for."""

    #: None: whatever is there.
    expected: int | None
    key: str | None
    #: Of the method, the path and the query.
    about: bytes

    def request(self, who: Identity, body: bytes) -> Request | None:
        """Return what is remembered of who asks this, if they gave it a key."""
        if self.key is None:
            return None
        total = hashlib.sha256(self.about + b"\0" + body).hexdigest()
        return Request(f"{who.id}/{self.key}", total)


async def _conditions(
    request: HttpRequest,
    if_match: Annotated[
        str | None,
        Header(
            description='The revision that the change is made for, as `"4"`: 412 where it is '
            'another. `"0"`: there must be none. `*` or nothing: whatever is there.',
            json_schema_extra={"pattern": rf"^(\*|{_REVISION.pattern})$"},
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="The same request with the same key again changes nothing more, and gets "
            "the same operation.",
            json_schema_extra={"pattern": f"^{_KEY.pattern}$"},
        ),
    ] = None,
) -> Conditions:
    expected = None
    if if_match is not None and if_match.strip() != "*":
        found = _REVISION.fullmatch(if_match.strip())
        if found is None:
            raise Problem(
                400,
                "bad-header",
                "If-Match is not a revision",
                'send it as ETag had it, with its quotes: If-Match: "4"',
            )
        expected = int(found[1])
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise Problem(
            400,
            "bad-header",
            "Idempotency-Key is not 1 to 200 visible characters",
            "a random UUID is a good one",
        )
    parts = (request.method, request.url.path, request.url.query)
    return Conditions(expected, idempotency_key, "\0".join(parts).encode())


#: The conditions of a change, for routes.
Conditional = Annotated[Conditions, Depends(_conditions)]


def changed(
    desk: Desk,
    who: Identity,
    file: Brought,
    conditions: Conditions,
    response: Response,
    body: bytes = b"",
) -> OperationView:
    """Begin a change and answer: 202 with its operation, 200 where there is nothing to do."""
    station = desk.station
    if who.role < Role.ADMIN:
        _refuse_inner(desk, file.wanted)
    if file.code is not None and not station.artifacts.missing([file.code]):
        archive.look(station.artifacts.path(file.code))
    submission = Submission(
        file.wanted,
        who.name,
        station.coordinator.clocks.wall(),
        file.note,
        file.code,
        file.state_loss,
        lost=file.lost,
    )
    try:
        view = station.apply(submission, conditions.expected, conditions.request(who, body))
    except OperationFailed as failure:
        if failure.code not in ("busy", "conflict"):
            raise
        board = station.coordinator.boards.get(file.wanted.name)
        there = board.newest if board is not None else 0
        raise Problem(409, failure.code, failure.message, failure.hint, revision=there) from failure
    response.status_code = 200 if view.over and not view.total else 202
    response.headers["Location"] = f"/api/v1/operations/{view.id}"
    response.headers["ETag"] = f'"{view.wanted}"'
    return view


def _refuse_inner(desk: Desk, wanted: Pipeline) -> None:
    """Raise where jobs that are new, or not as they were, send to what only their sites reach.

    Their metadata, their consoles: what is there is not for all who may change pipelines.
    """
    board = desk.station.coordinator.boards.get(wanted.name)
    known = board.file.jobs if board is not None else {}
    for name, job in wanted.jobs.items():
        if job.write is None or job.write.url is None:
            continue
        with suppress(ValueError):
            host = urlsplit(job.write.url).hostname or ""
            if is_inner(host) and known.get(name) != job:
                raise Problem(
                    403,
                    "inner-address",
                    f"job {name} would send to {host}, which is the site's own machine",
                    "let somebody with the role admin apply that, or send to another address",
                )
