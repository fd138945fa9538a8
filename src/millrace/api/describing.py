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

#: By operation: where its answer leads, with what the next one is asked for. A first name in a list
#: stands for any of them.
_OF_PATH = "$request.path.pipeline"
_FIRST = "$response.body#/items/0/"
_CHANGED = {
    "get_operation": {"operation": "$response.body#/id"},
    "get_pipeline": {"pipeline": "$response.body#/pipeline"},
}
_PARTS = {
    name: {"pipeline": _OF_PATH}
    for name in ("get_file", "list_revisions", "list_jobs", "list_streams")
}
LINKS: dict[str, dict[str, dict[str, str]]] = {
    "list_pipelines": {
        name: {"pipeline": _FIRST + "name"}
        for name in ("get_pipeline", "put_pipeline", "plan_pipeline", "delete_pipeline")
    },
    "get_pipeline": {**_PARTS, "rollback_pipeline": {"pipeline": _OF_PATH}},
    "put_pipeline": {**_CHANGED, **_PARTS, "delete_pipeline": {"pipeline": _OF_PATH}},
    "delete_pipeline": _CHANGED,
    "rollback_pipeline": _CHANGED,
    "plan_pipeline": {"put_pipeline": {"pipeline": _OF_PATH}},
    "list_jobs": {"get_job": {"pipeline": _OF_PATH, "job": _FIRST + "name"}},
    "get_job": {"get_log": {"pipeline": _OF_PATH, "job": "$response.body#/name"}},
    "list_streams": {"get_stream": {"pipeline": _OF_PATH, "stream": _FIRST + "name"}},
    "get_stream": {"list_records": {"pipeline": _OF_PATH, "stream": "$response.body#/name"}},
    "list_revisions": {"get_file": {"pipeline": _OF_PATH, "revision": _FIRST + "number"}},
    "list_sites": {"get_site": {"site": _FIRST + "name"}},
    "list_operations": {"get_operation": {"operation": _FIRST + "id"}},
    "get_operation": {"get_pipeline": {"pipeline": "$response.body#/pipeline"}},
    "list_journal": {"follow_events": {"after": _FIRST + "number"}},
    "create_token": {"revoke_token": {"token": "$response.body#/id"}},
    "put_artifact": {"get_artifact": {"digest": "$request.path.digest"}},
    "send_artifact": {"fetch_artifact": {"digest": "$request.path.digest"}},
    "list_speck_jobs": {
        name: {"job_name": _FIRST + "job_name"} for name in ("get_speck_job", "delete_speck_job")
    },
    "post_speck_job": {
        **_CHANGED,
        "get_speck_job": {"job_name": "$request.body#/job_name"},
    },
    "delete_speck_job": _CHANGED,
    "post_composition": {**_CHANGED, "list_speck_jobs": {"pipeline": "$response.body#/pipeline"}},
}


def tell_links(found: dict[str, Any]) -> None:
    """Add to a description where the answers of its operations lead."""
    operations = [it for methods in found["paths"].values() for it in methods.values()]
    for operation in operations:
        leads = LINKS.get(operation["operationId"], {})
        for status, response in operation["responses"].items():
            if leads and int(status) < HTTPStatus.MULTIPLE_CHOICES:
                response["links"] = {
                    name: {"operationId": name, "parameters": given}
                    for name, given in leads.items()
                }
