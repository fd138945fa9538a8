"""What goes wrong, as application/problem+json (RFC 9457): always with a code and a way out.

No answer holds a traceback, a token, or where on this machine something lies.
"""

from __future__ import annotations

import errno
import json
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace.errors import Diagnostic, ExportError, OperationFailed, SpecError
from millrace.wire import diagnostic_document

_LOG = logging.getLogger(__name__)
MEDIA = "application/problem+json"

#: By the code of a failure; codes that begin with `no-` are 404, what may work later is 503.
_STATUS: Mapping[str, int] = {
    "bad-archive": 422,
    "busy": 409,
    "conflict": 409,
    "disk-full": 507,
    "key-used": 422,
    "moved": 412,
    "no-answer": 504,
    "no-role": 422,
    "no-state": 503,
    "other-content": 422,
    "served-here": 409,
    "superseded": 503,
    "too-large": 413,
    "unknown-site": 422,
}
_TOKEN = re.compile(r"mr_([a-z0-9]{8})_[A-Za-z0-9_-]+")
#: user:password@ of an address, within a text of JSON.
_PASSWORD = re.compile(
    r"([a-z][a-z0-9+.-]{0,20}://[^/@\s:\"]{0,200}):[^/@\s\"]{1,200}@", re.IGNORECASE
)
#: Names at the root of this machine's disk: a path that begins with one of them is a real one.
_ROOTS = "|".join(re.escape(path.name) for path in Path("/").iterdir())
_PATH = re.compile(rf"(?<![\w:/.])/(?:{_ROOTS})(?:/[^\s/'\"(),;:]+)*/([^\s/'\"(),;:]+)")


class Problem(Exception):
    """A problem with its status: raised by routes, told by the handler below."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        hint: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.hint = hint
        self.headers = dict(headers or {})
        self.more = more
        super().__init__(detail)


def status_of(failure: OperationFailed) -> int:
    """Return the status that tells of a failure."""
    if (known := _STATUS.get(failure.code)) is not None:
        return known
    if failure.code.startswith("no-"):
        return 404
    return 503 if failure.transient else 422


def problem_of(error: Exception) -> Problem:
    """Return the problem that an exception is."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, OperationFailed):
        more = {"revision": error.revision} if hasattr(error, "revision") else {}
        return Problem(status_of(error), error.code, bare(error.message), bare(error.hint), **more)
    if isinstance(error, SpecError | ExportError):
        return _of_file(error)
    if isinstance(error, RequestValidationError):
        return _of_request(error)
    if isinstance(error, HTTPException):
        return _of_http(error)
    if isinstance(error, ClientDisconnect):
        return Problem(400, "cut", "the request broke off", "send it again")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(507, "disk-full", "the coordinator's disk is full", "make room there")
    return Problem(
        500,
        "unexpected",
        "the coordinator could not do that, by a mistake of its own",
        "its log tells what happened: please report it",
    )


def _of_file(error: SpecError | ExportError) -> Problem:
    errors = [it for it in error.diagnostics if it.severity.value == "error"] or error.diagnostics
    code = "bad-file" if isinstance(error, SpecError) else "not-sayable"
    first: Diagnostic | None = errors[0] if errors else None
    count = len(errors)
    more = f" (and {count - 1} more)" if count > 1 else ""
    told: dict[str, Any] = {"problems": [diagnostic_document(it) for it in error.diagnostics]}
    if first is not None and first.at is not None:
        told["location"] = str(first.at)
    return Problem(
        422,
        code,
        f"{first.message}{more}" if first is not None else "the file can't be read",
        (first.hint if first is not None else "") or "see `problems`",
        **told,
    )


def _of_request(error: RequestValidationError) -> Problem:
    return unfit([(".".join(map(str, it["loc"])), it["type"], it["msg"]) for it in error.errors()])


def unfit(found: list[tuple[str, str, str]]) -> Problem:
    """Return what is wrong with parts of a request: each by its place, kind and message.

    What was sent is not repeated: it may be a secret at the wrong place.
    """
    problems = [
        {"severity": "error", "code": code.replace("_", "-"), "message": f"{at[:200]}: {message}"}
        for at, code, message in found[:50]
    ]
    detail = problems[0]["message"] if problems else "the request is not as it must be"
    return Problem(422, "bad-request", detail, "see the API's description", problems=problems)


def _of_http(error: HTTPException) -> Problem:
    known = {
        404: ("no-path", "there is nothing at this path", "GET /api/v1/openapi.json says what is"),
        405: ("no-method", "that can't be done with this path", "see the header Allow"),
    }
    code, detail, hint = known.get(
        error.status_code, ("refused", HTTPStatus(error.status_code).phrase, "")
    )
    return Problem(error.status_code, code, detail, hint, headers=error.headers)


def bare(text: str) -> str:
    """Return a text without secrets of tokens, and without where on this machine things lie."""
    return _PATH.sub(r"\1", _TOKEN.sub(r"mr_\1_...", text))


def response_of(problem: Problem, path: str) -> Response:
    """Return the answer that tells of a problem; tokens and passwords of addresses are masked."""
    document = {
        "type": f"urn:millrace:problem:{problem.code}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        "instance": path,
        "code": problem.code,
        "hint": problem.hint,
        **problem.more,
    }
    text = _PASSWORD.sub(r"\1:***@", _TOKEN.sub(r"mr_\1_...", json.dumps(document)))
    return Response(text, problem.status, problem.headers, MEDIA)


async def _told(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    request.state.refused = problem.code  # for `audit`
    return response_of(problem, request.url.path)


def tell_problems(app: FastAPI) -> None:
    """Make every error of an application a problem."""
    for kind in (
        Problem,
        OperationFailed,
        SpecError,
        ExportError,
        RequestValidationError,
        HTTPException,
    ):
        app.add_exception_handler(kind, _told)
    app.add_middleware(Unexpected)


class Unexpected:
    """Answers what nobody foresaw, and tells the log of it; gives every answer safe headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def told(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [
                    *message.get("headers", []),
                    (b"cache-control", b"no-store"),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            await self.app(scope, receive, told)
        except Exception as error:
            problem = problem_of(error)
            if problem.status == 500:
                _LOG.exception("%s %s failed", scope["method"], bare(scope["path"]))
            if begun:
                raise
            await response_of(problem, scope["path"])(scope, receive, told)
