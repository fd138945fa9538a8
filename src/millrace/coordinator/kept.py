"""A board as a store keeps it: what changed since the last time, and how it is found again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from millrace.coordinator.board import Board
from millrace.coordinator.documents import (
    deployment_document,
    deployment_of,
    facts_document,
    facts_of,
    operation_document,
    operation_of,
)
from millrace.coordinator.files import Files
from millrace.coordinator.revision import Revision
from millrace.model.pipeline import Pipeline
from millrace.ports import Change, Document, Entry, Store
from millrace.spec import FileFormat, load_text
from millrace.wire import pipeline_document, plan_document

#: What a board consists of, by kind: documents with the name of the pipeline, and those with the
#: number of a file behind it.
_WHOLE = ("pipeline", "deployment", "former", "operation", "plan")
_NUMBERED = ("file", "facts", "revision")


def kept(board: Board, before: Board | None, entries: tuple[Entry, ...] = ()) -> Change:
    """Return what a store must be told of a board; `before` is what it knows already."""
    puts: dict[tuple[str, str], Document] = {}
    known = _parts(before) if before is not None else {}
    for (kind, name), (value, document) in _parts(board).items():
        there = known.get((kind, name))
        if there is None or (there[0] is not value and there[0] != value):
            puts[kind, name] = document(value)
    gone = frozenset(key for key in known if key not in _parts(board))
    return Change(puts, gone, entries)


def _parts(board: Board) -> dict[tuple[str, str], tuple[Any, Callable[[Any], Document]]]:
    """The parts of a board by their keys, each with how it is written."""
    numbers = {"newest": board.newest, "current": board.current}
    found: dict[tuple[str, str], tuple[Any, Callable[[Any], Document]]] = {
        ("pipeline", board.name): (numbers, dict),
        ("deployment", board.name): (board.deployment, deployment_document),
        ("former", board.name): (board.former, deployment_document),
    }
    if board.operation is not None:
        found["operation", board.name] = (board.operation, operation_document)
        found["plan", board.name] = (board.operation.plan, plan_document)
    for number, revision in board.revisions.items():
        key = f"{board.name}/{number}"
        found["revision", key] = (revision, asdict)
        found["file", key] = (board.files[number], pipeline_document)
        found["facts", key] = (board.files.facts(number), facts_document)
    return found


def restored(store: Store, name: str, now: float) -> Board:
    """Return the board of what a store has."""
    return next(board for board in all_restored(store, now) if board.name == name)


def all_restored(store: Store, now: float) -> list[Board]:
    """Return the boards of all pipelines that a store has."""
    whole = {kind: store.load(kind) for kind in _WHOLE}
    numbered = {kind: _by_pipeline(store.load(kind)) for kind in _NUMBERED}
    return [
        _board(
            name,
            {kind: documents[name] for kind, documents in whole.items() if name in documents},
            {kind: documents.get(name, {}) for kind, documents in numbered.items()},
            now,
        )
        for name in whole["pipeline"]
    ]


def _by_pipeline(documents: Mapping[str, Document]) -> dict[str, dict[int, Document]]:
    found: dict[str, dict[int, Document]] = {}
    for key, document in documents.items():
        name, _, number = key.rpartition("/")
        found.setdefault(name, {})[int(number)] = document
    return found


def _board(name: str, whole: Mapping[str, Any], numbered: Mapping[str, Any], now: float) -> Board:
    revisions = {
        number: Revision(**document) for number, document in sorted(numbered["revision"].items())
    }
    files = Files().with_file(0, Pipeline(name))
    for number, revision in revisions.items():
        files = files.with_file(number, _pipeline_of(numbered["file"][number]), revision.code)
        files = files.with_facts(number, facts_of(numbered["facts"].get(number, {})))
    operation = whole.get("operation")
    return Board(
        name,
        files,
        revisions,
        whole["pipeline"]["newest"],
        whole["pipeline"]["current"],
        deployment_of(whole["deployment"]),
        deployment_of(whole["former"]),
        operation_of(operation, whole["plan"], now) if operation is not None else None,
    )


def _pipeline_of(document: Mapping[str, Any]) -> Pipeline:
    text = json.dumps(document)
    return load_text(text, "stored", file_format=FileFormat.NATIVE, accepted=True).required()
