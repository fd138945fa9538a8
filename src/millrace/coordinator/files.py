"""The files of a pipeline by their numbers, and what is worked out of each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from millrace.agent.orders import with_schemas
from millrace.model.pipeline import Pipeline
from millrace.model.places import Key, World
from millrace.model.status import Facts
from millrace.plan.fuse import as_queries
from millrace.ports.link import Thing


@dataclass(slots=True)
class Files(Mapping[int, Pipeline]):
    """Files that are never changed: a new one has a new number."""

    _files: dict[int, Pipeline] = field(default_factory=dict)
    _worlds: dict[int, World] = field(default_factory=dict)
    _queries: dict[int, Pipeline] = field(default_factory=dict)
    _facts: dict[int, Facts] = field(default_factory=dict)
    #: The artifacts with the code of files.
    _code: dict[int, str] = field(default_factory=dict)
    #: Files with all columns, by the facts that are known now.
    _complete: dict[int, Pipeline] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Pipeline:
        """Return a file."""
        return self._files[number]

    def __iter__(self) -> Iterator[int]:
        """Give the numbers."""
        return iter(self._files)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._files)

    def with_file(self, number: int, file: Pipeline, code: str | None = None) -> Files:
        """Return these and one more; the number of a file that nobody kept may come again."""
        worlds = {n: world for n, world in self._worlds.items() if n != number}
        queries = {n: file for n, file in self._queries.items() if n != number}
        facts = {n: known for n, known in self._facts.items() if n != number}
        codes = {n: digest for n, digest in self._code.items() if n != number}
        codes |= {number: code} if code is not None else {}
        return Files({**self._files, number: file}, worlds, queries, facts, codes)

    def with_facts(self, number: int, facts: Facts) -> Files:
        """Return these with what engines found out of the jobs of one."""
        known = {**self._facts, number: facts}
        return Files(self._files, self._worlds, self._queries, known, self._code)

    def without(self, numbers: frozenset[int]) -> Files:
        """Return these without some that nobody needs any more."""
        kept = (self._files, self._worlds, self._queries, self._facts, self._code)
        return Files(*({n: it for n, it in one.items() if n not in numbers} for one in kept))  # type: ignore[arg-type]

    def code(self, number: int) -> str | None:
        """Return the artifact with the code that belongs to a file; None where it has none."""
        return self._code.get(number)

    def facts(self, number: int) -> Facts:
        """Return what engines found out of the jobs of a file."""
        return self._facts.get(number, {})

    def complete(self, number: int) -> Pipeline:
        """Return a file with the columns of streams that only their writers know."""
        if number not in self._complete:
            self._complete[number] = with_schemas(self._files[number], self.facts(number))
        return self._complete[number]

    def world(self, number: int) -> World:
        """Return a file by places."""
        if number not in self._worlds:
            self._worlds[number] = World(self._files[number])
        return self._worlds[number]

    def queries(self, number: int) -> Pipeline:
        """Return a file with its queries as jobs."""
        if number not in self._queries:
            self._queries[number] = as_queries(self._files[number])
        return self._queries[number]

    def key(self, stream: Thing) -> Key:
        """Return where a stream really is."""
        name, number = stream
        return self.world(number).stream_key(name)

    def site(self, stream: Thing) -> str:
        """Return the site that a stream is at."""
        name, number = stream
        return self._files[number].streams[name].site or ""
