"""Any file at all gives a pipeline or problems that help: each with a place and a hint, at once."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from millrace.cli.views.diagnostics import diagnostics_text
from millrace.spec import FileFormat, load
from millrace.spec.yaml_writer import write_yaml
from millrace.wire import diagnostic_document, pipeline_document
from tests.conftest import FIXTURES
from tests.strategies import pipelines

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "road-traffic"
#: A file may take so long, in seconds of processor time: others use the machine too.
MOST_SECONDS = 1.0
FEWEST_FILES = 5_000
#: What ends a line for one format or another.
BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def corpus() -> list[str]:
    """Return files of every format, and every piece of a file that the pages for users show."""
    paths = [path for path in sorted(FIXTURES.iterdir()) if path.is_file()]
    paths += sorted(EXAMPLE.rglob("*.yaml"))
    paths += sorted((ROOT / "src" / "millrace" / "cli" / "templates").glob("*.yaml.template"))
    shown = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs" / "language.md").read_text(), re.M | re.S
    )
    named = [text if "pipeline:" in text else f"pipeline: p\n{text}" for text in shown]
    return [*(path.read_text() for path in paths), *named]


CORPUS = corpus()
BITS = [
    *("{", "}", "[", "]", ":", "- ", "\n", "  ", "${{", "}}", "'", '"', "&a ", "*a", "!x ", "|\n"),
    *("~", "0", "-1", "1e9", "null", "true", "for: ", "jobs:", "from: ", "#", "//", "/*", "$x"),
    *(",", "\t", "é", "\x00", "[[[[", "x" * 300, "range(9)", "streams.a.b", "include: ", "<<: "),
    *("\r", "\u2028", "\x85", "\ufeff", "---\n", "...\n", "? ", "%YAML 1.1\n", "0x", ".inf", "=\n"),
    *("include: sites/fog.yaml\n", "include: ../x\n", "include: http://h/x\n", "profile: p\n"),
    *("${{ 1 / 0 }}", "${{ a.map(b, b) }}", "${{ range(1000000) }}", "10 s", "5 MB", "10/s"),
]
WORD = re.compile(r"[\w.@/${}-]+")
#: Words that stand in files, and values that fit somewhere else.
VOCABULARY = [
    *sorted({word for text in CORPUS for word in WORD.findall(text)}),
    *("0", "-1", "1.5", "true", "~", "''", "[]", "{}", "[a, b]", "{a: b}", "10 s", "5 MB", "10/s"),
    *("'${{ 1 }}'", "'${{ n + 1 }}'", "'${{ jobs.a.sql }}'", "{secret: env:X}", "2 records", "*"),
]
BYTES = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xfe\xff",
    b"\0",
    b"\x1b[2J",
    b"\xf4\x90\x80\x80",
    b"\n",
]


def mutated(text: str, chance: random.Random) -> str:
    """Return a text with a few cuts, copies and foreign bits."""
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 1, 3, 10, 60]))
        kind = chance.randrange(5)
        if kind == 0:
            text = text[:start] + chance.choice(BITS) + text[end:]
        elif kind == 1:
            text = text[:start] + text[end:]
        elif kind == 2:
            text = text[:end] + text[start:]
        elif kind == 3:
            other = chance.randrange(len(text) + 1)
            text = text[:start] + text[other : other + 30] + text[end:]
        else:
            other_text = chance.choice(CORPUS)
            other = chance.randrange(len(other_text))
            text = text[:start] + other_text[other : other + 80] + text[end:]
    return text


def edited(text: str, chance: random.Random) -> str:
    """Return a text as a person leaves it: still well-formed, for the most part."""
    for _ in range(chance.randint(1, 3)):
        words = list(WORD.finditer(text))
        lines = text.split("\n")
        place = chance.randrange(len(lines))
        kind = chance.randrange(4)
        if kind == 0 and words:
            word = chance.choice(words)
            text = text[: word.start()] + chance.choice(VOCABULARY) + text[word.end() :]
        elif kind == 1:
            text = "\n".join(lines[:place] + lines[place + 1 :])
        elif kind == 2:
            text = "\n".join([*lines[:place], chance.choice(lines), *lines[place:]])
        elif words:
            word, letter = chance.choice(words), chance.choice("aeinrst-_0")
            cut = chance.randint(word.start(), word.end())
            text = text[:cut] + letter + text[cut + chance.randrange(2) :]
    return text


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return bytes some of which a disk or an editor spoilt."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            data = data[:start] + chance.choice(BYTES) + data[start:]
        elif kind == 1:
            data = data[:start] + bytes([chance.randrange(256)]) + data[start + 1 :]
        elif kind == 2:
            data = data[:start]
        else:
            data = data[:start] + chance.randbytes(chance.randint(1, 8)) + data[start:]
    return data


WORDS = [
    *("a", "from", "to", "sql", "site", "for", "kind", "stream", "group", "options", "broker"),
    *("job_name", "streams", "jobs", "window", "every", "map", "retention", "pin", "host", "of"),
]
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**65), 2**65),
        st.floats(),
        st.sampled_from(["", "a", "10 s", "${{ 1 }}", "${{ x", "spark", "local", "raw", "x" * 300]),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=8,
)
TOP = [
    *("pipeline", "include", "constants", "profiles", "profile", "defaults", "groups", "sites"),
    *("pilots", "streams", "jobs", "description", "nope"),
]
DOCUMENTS = st.dictionaries(st.sampled_from(TOP), VALUES, max_size=6)
#: Of a seed that is drawn, and so the same each time.
CHANCE = st.randoms(use_true_random=True)
#: The kinds of files, with how many of each are tried.
KINDS: dict[str, tuple[int, st.SearchStrategy[bytes]]] = {
    "texts of the corpus, changed": (
        1_000,
        st.builds(lambda t, c: mutated(t, c).encode(), st.sampled_from(CORPUS), CHANCE),
    ),
    "texts of the corpus, edited": (
        2_000,
        st.builds(lambda t, c: edited(t, c).encode(), st.sampled_from(CORPUS), CHANCE),
    ),
    "pipelines with any field, edited": (
        100,
        st.builds(
            lambda p, c: edited(write_yaml(pipeline_document(p)), c).encode(), pipelines(), CHANCE
        ),
    ),
    "bytes of the corpus, spoilt": (
        800,
        st.builds(lambda t, c: damaged(t.encode(), c), st.sampled_from(CORPUS), CHANCE),
    ),
    "documents of any shape": (
        500,
        st.builds(lambda document: write_yaml(document).encode(), DOCUMENTS),
    ),
    "documents of any shape in JSON": (
        200,
        st.builds(lambda document: json.dumps(document).encode(), DOCUMENTS),
    ),
    "any text": (350, st.text(max_size=200).map(str.encode)),
    "any bytes": (100, st.binary(max_size=200)),
}


def judge(path: Path, file_format: FileFormat | None) -> None:
    """Load a file and show what came of it, as `millrace validate` does; nothing may be raised."""
    began = time.process_time()
    loaded = load(path, file_format=file_format)
    shown = diagnostics_text(loaded.diagnostics, loaded.sources, loaded.left_out).plain
    json.dumps([diagnostic_document(item) for item in loaded.diagnostics])
    assert time.process_time() - began <= MOST_SECONDS
    assert loaded.pipeline is not None or loaded.diagnostics
    lines = {name: len(BREAK.split(text)) for name, text in loaded.sources.items()}
    for item in loaded.diagnostics:
        assert item.message.strip(), item
        assert item.hint.strip(), item
        assert item.at is not None, item
        assert Path(item.at.file).is_file(), item
        assert 1 <= item.at.line <= lines.get(item.at.file, item.at.line), item
        assert item.at.column >= 1, item
        assert f"--> {item.at.file}:{item.at.line}:{item.at.column}\n" in shown


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example, so that what is included may be there."""
    shutil.copytree(EXAMPLE, tmp_path / "project")
    (tmp_path / "project" / "millrace.toml").touch()
    return tmp_path / "project"


def each(count: int, contents: st.SearchStrategy[Any], use: Callable[[Any], None]) -> int:
    """Call `use` for as many contents, and return for how many it was."""
    found = 0

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(contents)
    def holds(content: Any) -> None:
        nonlocal found
        found += 1
        note(f"the file: {content!r}")
        use(content)

    holds()
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_any_file_gives_a_pipeline_or_problems_that_help(kind: str, project: Path) -> None:
    count, contents = KINDS[kind]
    path = project / "pipeline.yaml"
    formats = st.sampled_from([*[None] * 12, *FileFormat])  # mostly told by the file itself

    def use(drawn: tuple[bytes, FileFormat | None]) -> None:
        path.write_bytes(drawn[0])
        judge(path, drawn[1])

    assert each(count, st.tuples(contents, formats), use) >= count


def test_there_are_enough_of_them() -> None:
    assert sum(count for count, _ in KINDS.values()) >= FEWEST_FILES
    assert len(CORPUS) >= 15
