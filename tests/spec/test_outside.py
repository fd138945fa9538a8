"""Sources and sinks that fit the streams they are of, and those that do not."""

from __future__ import annotations

import pytest

from millrace.errors import Diagnostic
from millrace.spec import load_text

STREAMS = "{a: {schema: {t: timestamp, k: string}}, raw: {format: text}}"


def told(job: str) -> list[Diagnostic]:
    text = f"pipeline: p\nstreams: {STREAMS}\njobs: {{j: {{{job}}}}}"
    return [item for item in load_text(text, "p").diagnostics if item.code == "outside"]


@pytest.mark.parametrize(
    ("job", "message", "hint"),
    [
        ("read: {files: x, holds: parquet}, to: raw", "stream 'raw'", "streams.raw.schema"),
        ("read: {replay: x, by: t}, to: raw", "none: it is text", "type timestamp"),
    ],
)
def test_a_stream_without_columns_takes_no_tables_and_no_paces(
    job: str, message: str, hint: str
) -> None:
    (found,) = told(job)
    assert message in found.message
    assert hint in found.hint


@pytest.mark.parametrize(
    "job",
    [
        "read: x, to: a",
        "read: x, to: raw",
        "read: C:/x, to: raw",
        "read: {replay: x, by: t}, to: a",
        "read: {query: x, by: id, database: 'postgresql://me@h/d'}, to: a",
        "from: a, write: out}, k: {from: a, write: ./out/",
        "from: a, write: {url: 'http://example.org'}",
        "from: a, write: {url: 'https://example.org', token: {secret: 'env:T'}}",
        "from: a, write: {url: 'http://127.0.0.1:80', token: {secret: 'env:T'}}",
        "from: a, write: {url: 'http://localhost/', token: {secret: 'env:T'}}",
        "from: a, write: {url: 'http://[::1]/', token: {secret: 'env:T'}}",
    ],
)
def test_what_is_right_is_left_alone(job: str) -> None:
    assert told(job) == []
