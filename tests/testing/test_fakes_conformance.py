"""The fakes claim what they do: a coordinator that works with them works with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from millrace.errors import OperationFailed
from millrace.model.job import Input, Job, Output
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Stream
from millrace.ports import Broker, JobOrder
from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.engine import EngineConformance, Standard
from millrace.testing.conformance.log import LogConformance
from millrace.testing.fakes import FakeBroker, FakeEngine

NOTHING = "its jobs do nothing but run"
WRONG = OperationFailed("wrong", "the code is wrong", "correct it")


class TestFakeBroker(BrokerConformance, LogConformance):
    CLAIMS = frozenset(
        {"start", "ensure", "drop", "partitions", "compact"}
        | {"records", "order", "positions", "waiting", "times", "missing"}
    )
    EXCUSES: ClassVar[Mapping[str, str]] = {
        "retention": "it forgets all of it at the end of a test",
        "max_record": "memory takes all",
        "clients": "nobody reaches it from another process",
    }

    @pytest.fixture
    def broker(self) -> Broker:
        broker = FakeBroker()
        broker.start()
        return broker


@dataclass
class FakeBench:
    """Jobs that do nothing; what is wrong is told by the fake."""

    place: Path
    fake: FakeEngine = field(default_factory=FakeEngine)

    def engine(self) -> FakeEngine:
        return self.fake

    def order(self, standard: Standard, job: str) -> JobOrder:
        if standard is Standard.WRONG:
            self.fake.refused[job] = self.fake.broken[job] = WRONG
        made = Job(
            job, map="code:made", inputs=(Input(stream="raw"),), outputs=(Output(stream="done"),)
        )
        streams = {name: Stream(name) for name in ("raw", "done")}
        pipeline = Pipeline("fakes", streams=streams, jobs={job: made})
        return JobOrder(pipeline, made, {}, self.place / job, self.place)

    def send(self, job: str, numbers: Sequence[int]) -> None:
        raise NotImplementedError

    def results(self, job: str) -> Sequence[int]:
        raise NotImplementedError

    def ends(self, job: str) -> Mapping[str, Mapping[int, int]]:
        raise NotImplementedError


class TestFakeEngine(EngineConformance):
    CLAIMS = frozenset({"examine", "start", "stop", "status", "neighbours", "close", "kill"})
    EXCUSES = dict.fromkeys(
        ("results", "continues", "crashes", "drains", "progress", "moving", "failures"), NOTHING
    )

    @pytest.fixture
    def bench(self, tmp_path: Path) -> FakeBench:
        return FakeBench(tmp_path)
