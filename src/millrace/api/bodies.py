"""What requests bring: read within limits, as JSON or YAML, and checked whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from millrace.api.desk import AtDesk
from millrace.api.limits import body_of, parsed
from millrace.api.problems import Problem, unfit
from millrace.errors import Problems, SpecError
from millrace.model.pipeline import Pipeline
from millrace.model.types import NAME
from millrace.spec import FileFormat, load_text
from millrace.spec.source import decode

_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
#: Formats that have no place for a pipeline's name.
_NAMELESS = (FileFormat.SPECK, FileFormat.PILOT)
_DIGEST = "^[0-9a-f]{64}$"
#: A name as a path or a body may have it.
NAMED = f"^{NAME.pattern}$"
NameText = Annotated[str, Field(pattern=NAMED)]
#: More characters than this are no note and no name of a token.
_TEXT = 1000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class FileBody(_Body):
    """A pipeline's file as its native document, with the artifact of its code."""

    document: dict[str, Any] = Field(description="The native document.")
    code: str | None = Field(None, pattern=_DIGEST, description="The artifact with its code.")
    note: str = Field("", max_length=_TEXT, description="Why; it is shown with the revision.")
    allow_state_loss: bool = Field(
        default=False, description="Whether jobs may lose what they keep, where they must."
    )
    lost_sites: list[str] = Field(
        default_factory=list,
        max_length=_TEXT,
        description="Sites that are down for good: nothing is waited for that they would do.",
    )


class RollbackBody(_Body):
    """A revision to go back to."""

    revision: int = Field(ge=1, le=2**31)
    note: str = Field("", max_length=_TEXT)
    allow_state_loss: bool = False


class TokenBody(_Body):
    """What a new token is for."""

    name: str = Field(min_length=1, max_length=200, description="Whose it is.")
    role: Literal["viewer", "operator", "admin"] = "viewer"
    pipelines: list[NameText] | None = Field(
        None, max_length=1000, description="The pipelines that it is for; null is all."
    )
    site: NameText | None = Field(
        None, description="The site whose agent it is for: such a token does nothing else."
    )
    expires_seconds: int | None = Field(
        None, ge=1, le=10 * 366 * 86400, description="For how long it holds; null is for ever."
    )


class SpeckBody(_Body):
    """A job as SpecK describes it."""

    job_name: str = Field(min_length=1, max_length=200)
    entry_class: str = Field(min_length=1)
    job_path: str = Field(min_length=1)
    spe_address: str = Field(min_length=1)
    source_broker: str = Field(min_length=1)
    sink_broker: str = Field(min_length=1)
    source_topic: str = Field(min_length=1)
    sink_topic: str = Field(min_length=1)


Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Raw:
    """A body as it came."""

    data: bytes
    yaml: bool


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _is_json(kind: str) -> bool:
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def _unknown(kind: str, known: str) -> Problem:
    what = f"a body of type {kind[:80]!r}" if kind else "a body without a Content-Type"
    return Problem(415, "other-type", f"{what} can't be read here", f"send {known}")


async def _json(request: Request, desk: AtDesk) -> Any:
    if not _is_json(kind := _kind(request)):
        raise _unknown(kind, "application/json")
    return parsed(await body_of(request, desk.limits), desk.limits.depth)


#: A body of JSON, whatever it says.
AnyJson = Annotated[Any, Depends(_json)]


async def _raw(request: Request, desk: AtDesk) -> Raw:
    kind = _kind(request)
    if kind not in _YAML and not _is_json(kind):
        raise _unknown(kind, "application/json or application/yaml")
    return Raw(await body_of(request, desk.limits), kind in _YAML)


#: A body of JSON or YAML, not yet read: that may take long, so a route does it in its thread.
RawFile = Annotated[Raw, Depends(_raw)]


def body(model: type[Model]) -> Callable[..., Coroutine[Any, Any, Model]]:
    """Return the dependency that reads a body of JSON as a model says."""

    async def read(document: AnyJson) -> Model:
        return fitted(model, document)

    return read


def fitted(model: type[Model], document: Any) -> Model:
    """Return a document as a model says; raises all that is wrong with it."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise unfit(
            [(".".join(["body", *map(str, it["loc"])]), it["type"], it["msg"]) for it in found]
        ) from None


@dataclass(frozen=True, slots=True)
class Brought:
    """A pipeline's file with what came with it."""

    wanted: Pipeline
    code: str | None = None
    note: str = ""
    state_loss: bool = False
    lost: frozenset[str] = frozenset()


def brought(raw: Raw, name: str, depth: int) -> Brought:
    """Return the file of a body; raises all that is wrong with it, each with its place.

    `name` is the pipeline of the path, which must be the file's own; a file of a format without
    names gets it.
    """
    if raw.yaml:
        return Brought(_loaded(_text(raw.data), "body", name, None))
    given = fitted(FileBody, parsed(raw.data, depth))
    text = json.dumps(given.document, indent=2, ensure_ascii=False)
    wanted = _loaded(text, "document", name, FileFormat.NATIVE)
    lost = frozenset(given.lost_sites)
    return Brought(wanted, given.code, given.note, given.allow_state_loss, lost)


def composition(raw: Raw, name: str) -> Pipeline:
    """Return the pipeline of a composition of SpecK, under a name; JSON is YAML, too."""
    return _loaded(_text(raw.data), "body", name, FileFormat.SPECK)


def _text(data: bytes) -> str:
    problems = Problems()
    text = decode(data, "body", problems)
    if text is None:
        raise SpecError(problems.items)
    return text


def _loaded(text: str, source: str, name: str, file_format: FileFormat | None) -> Pipeline:
    loaded = load_text(text, source, file_format=file_format)
    wanted = loaded.required()
    if loaded.format in _NAMELESS:
        return replace(wanted, name=name)
    if wanted.name != name:
        raise Problem(
            422,
            "other-name",
            f"the file is of pipeline {wanted.name[:200]!r}, and the path of {name!r}",
            "send it to the path of its own name",
        )
    return wanted
