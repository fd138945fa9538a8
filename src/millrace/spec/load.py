"""The one way in: a file of any known format to a Pipeline, with every problem at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millrace.errors import Diagnostic, Problems, SpecError
from millrace.model.job import Job
from millrace.model.pilot import Pilot
from millrace.model.pipeline import Pipeline
from millrace.model.shape import record_of
from millrace.model.site import Site
from millrace.model.stream import Stream
from millrace.spec.balance import Balance
from millrace.spec.check import Names, check
from millrace.spec.complete import complete
from millrace.spec.convert import FAILED, Converter, Origin
from millrace.spec.document import SECTIONS, Assembler, Document
from millrace.spec.evaluate import Scope, Values
from millrace.spec.expand import Expander, Items, Lookup, constants_of
from millrace.spec.formats import FileFormat, parse_native, read_document
from millrace.spec.source import Source, Sources, project_root

SHAPES: Mapping[str, type[Any]] = {"sites": Site, "pilots": Pilot, "streams": Stream, "jobs": Job}


@dataclass(frozen=True)
class Loaded:
    """What came of a file: the pipeline, unless there are errors, and what there is to say."""

    pipeline: Pipeline | None
    diagnostics: tuple[Diagnostic, ...]
    left_out: int = 0
    format: FileFormat | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)
    balance: Balance = field(default_factory=Balance)

    def required(self) -> Pipeline:
        """Return the pipeline; SpecError, with every problem, if there is none."""
        if self.pipeline is None:
            raise SpecError(self.diagnostics, self.sources)
        return self.pipeline


def load(
    path: str | Path,
    *,
    profile: str | None = None,
    root: Path | None = None,
    file_format: FileFormat | None = None,
    trace: bool = False,
) -> Loaded:
    """Read a pipeline file; nothing is raised, all problems are in the result.

    `root` is the folder that includes may not leave (by default the project's); `trace` keeps
    where each value came from.
    """
    problems = Problems()
    place = Path(path)
    try:
        limit = root or project_root(place)
    except (OSError, RuntimeError, ValueError):
        limit = Path()
    sources = Sources(problems, limit)
    source = sources.read(place, str(path))
    return _Loading(problems, sources, profile, trace).load(source, file_format)


def load_text(
    text: str,
    name: str = "<text>",
    *,
    profile: str | None = None,
    file_format: FileFormat | None = None,
    trace: bool = False,
    accepted: bool = False,
) -> Loaded:
    """Read a pipeline from a text; it can't include files.

    One that was `accepted` once, by the rules of that time, is not judged by those of today.
    """
    problems = Problems()
    sources = Sources(problems, Path())
    source = sources.take(Source(name, text))
    return _Loading(problems, sources, profile, trace, accepted).load(source, file_format)


@dataclass(slots=True)
class _Loading:
    """The stages of one load, in order."""

    problems: Problems
    sources: Sources
    profile: str | None
    trace: bool
    accepted: bool = False
    origins: dict[str, Origin] = field(default_factory=dict)
    balance: Balance | None = None

    def load(self, source: Source | None, file_format: FileFormat | None) -> Loaded:
        with _collector_at_rest():
            return self._load(source, file_format)

    def _load(self, source: Source | None, file_format: FileFormat | None) -> Loaded:
        pipeline, found = None, file_format
        if source is not None:
            read = read_document(source, self.problems, self.sources, file_format)
            found = read.format
            if read.node is not None:
                assembler = Assembler(self.sources, self.problems, parse_native, self.profile)
                pipeline = self._pipeline(assembler.assemble(source, read.node), read.node.at)
        return Loaded(
            None if self.problems.failed else pipeline,
            tuple(self.problems),
            self.problems.left_out,
            found,
            self.sources.texts,
            self.origins,
            self.balance or Balance(),
        )

    def _pipeline(self, document: Document, at: Any) -> Pipeline | None:
        values = Values(self.problems)
        scope = constants_of(document, values, self.problems)
        expander = Expander(document, values, self.problems, scope)
        items = expander.expand()
        if any(item.code == "too-many" for item in self.problems):
            return None
        shapes = {section: record_of(cls) for section, cls in SHAPES.items()}
        values.lookup = Lookup(items, values, shapes)
        things = self._convert(items, values)
        name = self._text(document.name, "pipeline", values, scope)
        if (
            document.name is not None
            and not (name and name.isprintable())
            and not self.problems.failed
        ):
            self.problems.error(
                "bad-name",
                "the pipeline's name is empty or can't be shown",
                document.name.at,
                found=repr(name),
                expected="a text that people can read",
                hint="rename it",
            )
        if document.name is None:
            self.problems.error(
                "missing-key",
                "the pipeline has no name",
                at,
                hint="add `pipeline: NAME` at the top",
            )
        described = self._text(document.description, "description", values, scope)
        pipeline = complete(Pipeline(name, described, at=at, **things))
        whole = all(len(things[section]) == len(items[section]) for section in SECTIONS)
        whole = whole and not expander.dropped
        names = Names(items, frozenset(document.groups))
        if not self.accepted:
            self.balance = check(pipeline, names, self.problems, whole=whole)
        return pipeline

    def _convert(self, items: Items, values: Values) -> dict[str, dict[str, Any]]:
        origins = self.origins if self.trace else None
        converter = Converter(values, self.problems, origins, accepted=self.accepted)
        things: dict[str, dict[str, Any]] = {}
        for section, cls in SHAPES.items():
            shape = record_of(cls)
            things[section] = {}
            for item in items[section].values():
                path = f"{section}.{item.name}"
                thing = converter.record(
                    shape, item.layers, item.scope, path, _REPEATS, name=item.name, at=item.at
                )
                if thing is not FAILED:
                    things[section][item.name] = thing
        return things

    def _text(self, node: Any, what: str, values: Values, scope: Scope) -> str:
        if node is None:
            return ""
        done = values.of(node, scope)
        if done is None:
            return ""
        if not isinstance(done.value, str):
            self.problems.error(
                "wrong-type",
                f"{what} must be a text",
                node.at,
                found=done.describe(),
                expected="a text",
                hint="put it in quotes",
            )
            return ""
        return done.value


_REPEATS = frozenset({"for"})


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Keep the garbage collector from looking through a growing tree again and again.

    A document of 10,000 jobs is half a million objects that all stay and hold no circles; without
    this a third of the time goes into finding that out.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
