"""Windows, inputs, sources and sinks that can't be as the file says, each with the way out."""

from __future__ import annotations

import pytest

from millrace.spec import load_text

HEAD = "pipeline: p\nstreams: {a: {schema: {t: timestamp, k: string}}, b: {}}\njobs: {j: {"
IN_TIME = "window: {of: 3 s, every: 1 s, by: t"


@pytest.mark.parametrize(
    ("job", "code", "message", "hint"),
    [
        ("from: a, to: b, aggregate: {n: count(*)}", "window", "over which window", "of: 10 s"),
        (f"from: a, to: b, sql: x, {IN_TIME}, inverse: 'm:f'}}", "window", "function", "leave"),
        (
            "from: a, to: b, map: 'm:f', window: {of: 3, every: 1, inverse: 'm:f'}",
            "window",
            "sliding windows of time",
            "all records",
        ),
        (
            f"from: a, to: b, map: 'm:f', {IN_TIME}, idle: 1 s, inverse: 'm:f'}}",
            "window",
            "idle",
            "all records",
        ),
        (
            f"from: a, to: b, aggregate: {{n: count(*)}}, {IN_TIME}, late: keep}}",
            "window",
            "no stream for them",
            "streams.a.dead_letters",
        ),
        ("from: a, to: b, sql: x, overload: drop-oldest", "overload", "what age", "at: 1 min"),
        (
            f"from: a, to: b, aggregate: {{k: count(*)}}, {IN_TIME}, per: k}}",
            "window",
            "an aggregate 'k'",
            "another name",
        ),
        ("from: {stream: a, lateness: 1 s}, to: b, sql: x", "input", "no column of time", "by:"),
        ("from: {stream: a, by: t}, to: b, sql: x, window: {of: 1 s, by: t}", "input", "already",
         "leave out"),
        ("from: {stream: a, by: t, unique: k}, to: b, sql: x", "input", "how long", "within"),
        ("from: {stream: a, by: t, within: 1 s}, to: b, sql: x", "input", "which columns",
         "unique: COLUMN"),
        (
            "from: {stream: a, by: t, unique: k, within: 1 s, lateness: 1 s}, to: b, sql: x",
            "input",
            "beside `within`",
            "how late",
        ),
        ("from: [{stream: a, table: true, by: t}, b], sql: x", "input", "no times", "leave out"),
        ("from: {stream: a, by: t}, to: b, map: 'm:f'", "input", "`map` code", "sql and python"),
        ("from: {stream: a, table: true}, to: b, sql: x", "only-tables", "fire", "table"),
        ("read: {}, to: b", "outside", "nothing", "files, replay, query"),
        ("read: {files: x, replay: y, by: t}, to: b", "outside", "files and replay", "one of"),
        ("from: a, read: x, to: b", "outside", "reads streams, too", "from"),
        ("read: x, to: [a, b]", "outside", "2 streams", "one stream"),
        ("read: {replay: x}, to: b", "outside", "which column", "by: COLUMN"),
        ("read: {query: x, database: 'sqlite:x'}, to: b", "outside", "are new", "only grows"),
        ("read: {query: x, by: id}, to: b", "outside", "which database", "sqlite:PATH"),
        ("read: {replay: x, by: t, speed: 0}, to: b", "outside", "no speed", "speed: 1"),
        ("from: a, write: {}", "outside", "nothing", "files, command, url"),
        ("from: a, to: b, write: out", "outside", "writes streams, too", "to"),
        ("from: [a, b], write: out", "outside", "one stream", "from:"),
        ("from: a, write: {url: 'ftp://x'}", "outside", "ftp://x", "https://"),
        ("every: 1 s, to: b, state: {code: 'm:S', key: k}", "outside", "not for `state`", "map"),
        ("from: a, to: b, every: 1 s, map: 'm:f'", "outside", "without inputs", "interval:"),
        ("every: 1 s, map: 'm:f'", "outside", "which stream", "to: STREAM"),
        ("every: 0 s, map: 'm:f', to: b", "outside", "no time", "every: 1 s"),
        ("read: 'sqlite:x.db', to: a", "outside", "sqlite: for the name", "database:"),
        ("read: 'postgres://h/d', to: a", "outside", "postgres: for the name", "database:"),
        ("read: 'https://x/y', to: a", "outside", "https: for the name", "on this machine"),
        ("read: {query: x, by: id, database: 'mysql://h/d'}, to: a", "outside", "'mysql'",
         "sqlite:PATH"),
        ("read: {query: x, by: id, database: 'postgresql://h/d?sslmode=no'}, to: a", "outside",
         "parameters", "TLS"),
        ("read: x, to: b", "outside", "stream 'b' are not known", "streams.b.schema"),
        ("read: {query: x, by: id, database: 'sqlite:x'}, to: b", "outside", "stream 'b'",
         "streams.b.schema"),
        ("read: {replay: x, by: z}, to: a", "outside", "it has t, k", "timestamp"),
        ("read: {replay: x, by: k}, to: a", "outside", "is string in stream 'a'", "timestamp"),
        ("from: a, write: 'https://x/y'", "outside", "an address", "write: {url: ...}"),
        ("from: a, write: {url: 'http://example.org', token: {secret: 'env:T'}}", "outside",
         "its token", "https://"),
        ("from: a, write: {url: 'http://10.0.0.1', token: {secret: 'env:T'}}", "outside",
         "its token", "https://"),
        ("from: a, write: {command: [x], timeout: 0 s}", "outside", "no time", "30 s"),
        ("from: a, write: out, promise: no-duplicates", "outside", "may get a batch twice",
         "leave out `promise`"),
        ("from: a, write: out}, k: {from: a, write: {files: ./out/, format: csv}", "outside",
         "puts csv", "its own folder"),
    ],
)  # fmt: skip
def test_the_problem_is_told_with_the_way_out(job: str, code: str, message: str, hint: str) -> None:
    told = [item for item in load_text(f"{HEAD}{job}}}}}", "p").diagnostics if item.code == code]
    assert any(message in item.message and hint in item.hint for item in told), told
