"""Flink claims what an engine can do whose jobs are black boxes to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from millrace.engines.flink import FlinkEngine, ManagedFlink
from millrace.ports import JobOrder
from millrace.testing.conformance.claims import behaviours
from millrace.testing.conformance.engine import EngineConformance, Standard
from tests.engines.flink.conftest import MakeOrder
from tests.engines.flink.waits import numbers

OPTIONS = "execution.checkpointing.interval: 100 ms, restart-strategy.type: none"


@dataclass
class Files:
    """Jobs that follow files on a cluster that is there: streams without a broker."""

    page: str
    folder: Path
    make: MakeOrder
    _engines: list[FlinkEngine] = field(default_factory=list)

    def engine(self) -> FlinkEngine:
        if not self._engines:
            self._engines.append(FlinkEngine(self.page))
        return self._engines[0]

    def order(self, standard: Standard, job: str) -> JobOrder:
        self._file(job, "in").touch()
        files = (str(self._file(job, "in")), str(self._file(job, "out")))
        entry = "jobs.Line" if standard is Standard.WRONG else "jobs.Lines"
        return self.make(job, standard.value, *files, entry=entry, options=OPTIONS)

    def send(self, job: str, given: Sequence[int]) -> None:
        with self._file(job, "in").open("a") as file:
            file.write("".join(f"{number}\n" for number in given))

    def results(self, job: str) -> list[int]:
        return numbers(self._file(job, "out"))

    def ends(self, job: str) -> Mapping[str, Mapping[int, int]]:
        raise NotImplementedError(job)  # nothing that is claimed asks for it

    def _file(self, job: str, kind: str) -> Path:
        return self.folder / f"{job}.{kind}"


class TestFlink(EngineConformance):
    EXCUSES: ClassVar[Mapping[str, str]] = {
        "drains": "how far a program has read only it knows",
        "progress": "positions are its program's; records are counted, but for each run anew",
    }
    CLAIMS = frozenset(behaviours(EngineConformance)) - EXCUSES.keys()

    @pytest.fixture
    def bench(self, flink: ManagedFlink, order: MakeOrder, tmp_path: Path) -> Iterator[Files]:
        flink.wait()
        files = Files(flink.page, tmp_path, order)
        yield files
        files.engine().kill()
