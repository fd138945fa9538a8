"""What the API's description says of every route, beside what the routes say themselves."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from millrace.api.problems import MEDIA

Responses = dict[int | str, dict[str, Any]]

_REASONS = {
    400: "A header or the body can't be read.",
    401: "No token, or one that does not hold.",
    403: "The token may not do that.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "Another change is on its way; `revision` is the one that is there.",
    412: "The pipeline is not at the revision of If-Match; `revision` is the one that is there.",
    413: "The body is too large.",
    415: "The body is of a type that is not known here.",
    422: "What was sent is not as it must be; `problems` says all that is wrong.",
    429: "Too many requests of this token wait.",
    503: "It can't be done now; try again later.",
    504: "The site did not answer.",
    507: "The coordinator's disk is full; nothing was kept.",
}
_ALWAYS = (400, 401, 403, 422, 503)
_BODY = (408, 413, 415)

PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "description": "What went wrong, as RFC 9457 has it: what, and what to do.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "hint"],
    "properties": {
        "type": {"type": "string", "description": "urn:millrace:problem:CODE"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, for people."},
        "instance": {"type": "string", "description": "The path that was asked for."},
        "code": {"type": "string", "description": "What is wrong, for programs; it is stable."},
        "hint": {"type": "string", "description": "What to do."},
        "location": {"type": "string", "description": "Where in the file: file:line:column."},
        "revision": {"type": "integer", "description": "The revision that is there."},
        "problems": {
            "type": "array",
            "description": "All that is wrong, each with its place.",
            "items": {"type": "object", "additionalProperties": True},
        },
    },
    "examples": [
        {
            "type": "urn:millrace:problem:moved",
            "title": "Precondition Failed",
            "status": 412,
            "detail": "traffic is at revision 4, and 3 was expected",
            "instance": "/api/v1/pipelines/traffic",
            "code": "moved",
            "hint": "look at what is there now (millrace diff), then apply again",
            "revision": 4,
        }
    ],
}


def refuses(*statuses: int, body: bool = False) -> Responses:
    """Return what a route may refuse, beside what all of them may."""
    found = {*_ALWAYS, *statuses, *(_BODY if body else ())}
    return {status: _problem(status) for status in sorted(found)}


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    description = _REASONS.get(status) or HTTPStatus(status).phrase
    return {"description": description, "content": {MEDIA: {"schema": schema}}}


def takes(model: type[BaseModel], example: Any) -> dict[str, Any]:
    """Return the description of a body of JSON."""
    content = {"schema": _schema(model), "example": example}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def takes_file(model: type[BaseModel], example: Any, text: str) -> dict[str, Any]:
    """Return the description of a body that is JSON, or a file of YAML."""
    schema = {"type": "string", "description": "A pipeline file of any format that Millrace reads."}
    content = {
        "application/json": {"schema": _schema(model), "example": example},
        "application/yaml": {"schema": schema, "example": text},
    }
    return {"requestBody": {"required": True, "content": content}}


def takes_bytes() -> dict[str, Any]:
    """Return the description of a body of bytes."""
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": True, "content": content}}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def header(text: str, example: str) -> dict[str, Any]:
    """Return the description of a header of an answer."""
    return {"description": text, "schema": {"type": "string"}, "example": example}


LOCATION = {"Location": header("The operation.", "/api/v1/operations/traffic.4")}
ETAG = {"ETag": header("The newest revision, for If-Match.", '"4"')}
