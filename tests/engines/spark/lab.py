"""A Kafka and a Spark driver for many small pipelines, each with topics of its own."""

from __future__ import annotations

import itertools
import json
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from millrace.brokers.kafka import ManagedKafka
from millrace.engines.spark.engine import SparkEngine
from millrace.errors import OperationFailed
from millrace.model.graph import in_order
from millrace.model.pipeline import Pipeline
from millrace.model.status import JobFacts
from millrace.plan.fuse import fusion
from millrace.ports import Fates, JobOrder, JobState, Progress, Record
from millrace.spec import load_text

#: What every pipeline of these tests begins with.
HEAD = "sites: {here: {broker: kafka}}\n"
#: How long a machine with much else to do may take.
LIMIT = 180.0
#: What a job says that Spark gave no more than ten seconds to start its Python.
SLOW_PYTHON = "too busy to start Python"


def wait_until(condition: Callable[[], bool], what: object, limit: float = LIMIT) -> None:
    """Wait for a condition; fails with `what`, or what it returns, after the limit."""
    until = time.monotonic() + limit
    while not condition():
        if time.monotonic() > until:
            said = what() if callable(what) else what
            raise AssertionError(f"not within {limit:.0f} s: {said}")
        time.sleep(0.1)


def json_record(key: str | None = None, **columns: Any) -> Record:
    return Record(json.dumps(columns).encode(), None if key is None else key.encode())


def multiset(records: Iterable[Record]) -> Counter[tuple[bytes | None, bytes | None]]:
    """What must be equal between modes: keys and values, however often."""
    return Counter((record.key, record.value) for record in records)


def objects(records: Iterable[Record]) -> list[Any]:
    """Values of JSON records, in an order that does not depend on partitions."""
    found = [json.loads(record.value or b"null") for record in records]
    return sorted(found, key=lambda item: json.dumps(item, sort_keys=True))


def balanced(fates: Fates) -> bool:
    """Whether each record that was read has exactly one fate."""
    known = fates.used + (fates.filtered or 0) + fates.malformed + fates.dropped
    known += 0 if fates.filtered is None else fates.late  # inside used, where Spark drops them
    return fates.read == known + fates.lost_sight


@dataclass(slots=True)
class Case:
    """One pipeline: its topics are there, none of its jobs runs yet."""

    kafka: ManagedKafka
    engine: SparkEngine
    pipeline: Pipeline
    place: Path
    code: Path
    started: list[str] = field(default_factory=list)
    #: The engine also remembers jobs of the same name of earlier cases.
    began: float = field(default_factory=time.time)

    def order(self, job: str) -> JobOrder:
        clients = self.kafka.status().clients
        order = JobOrder(
            self.pipeline,
            self.pipeline.jobs[job],
            {"here": clients["java"]},
            self.place / "jobs" / job,
            self.code,
            writers={"here": clients["librdkafka"]},
        )
        found = fusion(self.pipeline)
        group = found.group(job)
        if len(group) == 1:
            return order
        jobs = tuple(self.pipeline.jobs[name] for name in group)
        return replace(order, job=jobs[0], fused=jobs, inside=found.inside)

    def version(self, text: str, **modules: str) -> Case:
        """Return the case with another file, and modules; its streams and places are the same."""
        for module, source in modules.items():
            (self.code / f"{module}.py").write_text(textwrap.dedent(source))
        return replace(self, pipeline=_loaded(self.pipeline.name, text))

    def examine(self, *jobs: str) -> Mapping[str, JobFacts]:
        """Ask how jobs would run, in the order of the graph; all of them if none is named."""
        names = [job.name for job in in_order(self.pipeline) if not jobs or job.name in jobs]
        return self.engine.examine([self.order(name) for name in self.heads(names)])

    def heads(self, names: Iterable[str]) -> list[str]:
        """The first jobs of the queries that some jobs are in."""
        found = fusion(self.pipeline)
        return list(dict.fromkeys(found.group(name)[0] for name in names))

    def start(self, *jobs: str) -> None:
        """Start jobs side by side; all of them if none is named."""
        names = list(jobs or self.pipeline.jobs)
        self.started += names
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._start, self.heads(names)))

    def _start(self, name: str) -> None:
        try:
            self.engine.start(self.order(name))
        except OperationFailed as failure:
            if SLOW_PYTHON not in failure.hint:  # those are tried again when somebody looks
                raise

    def drain(self, *jobs: str) -> None:
        """Start jobs of `mode: drain` and wait until they ended by themselves."""
        names = list(jobs or self.pipeline.jobs)
        self.start(*names)
        for name in names:
            self.wait_state(name, JobState.ENDED)

    def wait_state(self, job: str, state: JobState) -> None:
        over = {JobState.ENDED, JobState.FAILED, JobState.STOPPED} - {state}

        def there() -> bool:
            self._try_again()
            status = self.engine.status()[job]
            if status.state is JobState.FAILED and SLOW_PYTHON in status.hint:
                return False  # since just now
            assert status.state not in over, f"{job} is {status.state}: {status.error}"
            return status.state is state

        wait_until(there, lambda: f"{job}: {self.engine.status()[job]}")

    def _try_again(self) -> None:
        """Start what a busy machine kept from its Python, as the agent does."""
        jobs = self.engine.status()
        failed = [name for name in self.started if jobs[name].state is JobState.FAILED]
        slow = [name for name in failed if SLOW_PYTHON in jobs[name].hint]
        for name in self.heads(slow):
            self.engine.start(self.order(name))

    def send(self, stream: str, records: Iterable[Record]) -> int:
        return self.kafka.log.write(self.topic(stream), records)

    def topic(self, stream: str) -> str:
        return self.pipeline.streams[stream].address

    def count(self, stream: str) -> int:
        return sum(span.end for span in self.kafka.log.ends(self.topic(stream)).values())

    def read(self, stream: str, least: int = 0) -> list[Record]:
        """Return all records of a stream, when it has as many as `least`."""

        def there() -> bool:
            self._try_again()
            return self.count(stream) >= least

        wait_until(
            there,
            lambda: f"{stream} has {self.count(stream)} of {least}: {self.engine.status()}",
        )
        ends = self.kafka.log.ends(self.topic(stream))
        start = dict.fromkeys(ends, 0)
        return list(
            self.kafka.log.read(
                self.topic(stream), start, {part: span.end for part, span in ends.items()}
            )
        )

    def progress(self, job: str, read: int) -> Progress:
        """Return a job's progress when its ledger has as many records as `read`."""

        def there() -> bool:
            self._try_again()
            progress = self.engine.status()[job].progress
            return progress.at >= self.began and progress.fates.read >= read

        wait_until(there, lambda: f"{job} read {read}: {self.engine.status()[job]}")
        return self.engine.status()[job].progress

    def fates(self, job: str, read: int) -> Fates:
        return self.progress(job, read).fates

    def failure(self, *jobs: str) -> OperationFailed:
        """Return what examining the jobs fails with."""
        try:
            found = self.examine(*jobs)
        except OperationFailed as failure:
            return failure
        raise AssertionError(f"nothing is wrong: {found}")

    def stop(self) -> None:
        names = dict.fromkeys(self.started)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.engine.stop, self.heads(names)))


def _loaded(name: str, text: str) -> Pipeline:
    loaded = load_text(f"pipeline: {name}\n{HEAD}{textwrap.dedent(text)}", "case").required()
    streams = {
        stream.name: replace(stream, topic=f"{name}.{stream.name}")
        for stream in loaded.streams.values()
    }
    return replace(loaded, streams=streams)


@dataclass(slots=True)
class Lab:
    """What the tests of a module share."""

    kafka: ManagedKafka
    engine: SparkEngine
    place: Path
    #: Several may share a Kafka: their streams begin with different words.
    word: str = "case"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def case(self, text: str, **modules: str) -> Iterator[Case]:
        """Make the streams of a pipeline text; `modules` are the user's. Its jobs are stopped."""
        name = f"{self.word}{next(self._numbers)}"
        place = self.place / name
        (place / "code").mkdir(parents=True)
        for module, source in modules.items():
            (place / "code" / f"{module}.py").write_text(textwrap.dedent(source))
        pipeline = _loaded(name, text)
        self.kafka.ensure(*pipeline.streams.values())
        case = Case(self.kafka, self.engine, pipeline, place, place / "code")
        try:
            yield case
        finally:
            case.stop()
