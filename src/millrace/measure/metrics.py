"""Jobs as OpenMetrics; the only user of prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from millrace.ports import Fates, JobState, JobStatus

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
#: What becomes of a record that was read; together they are all that was read.
FATES: Final = ("used", "filtered", "malformed", "late", "dropped", "lost_sight")
_JOB: Final = ("pipeline", "job")


@dataclass(frozen=True, slots=True)
class JobSample:
    """A job as it is shown: its status, how far it is behind by stream, its latency by quantile."""

    pipeline: str
    job: str
    status: JobStatus
    lag_records: Mapping[str, int] = field(default_factory=dict)
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    #: Seconds by quantile, such as {0.5: 0.2, 0.99: 1.1}.
    latency: Mapping[float, float] = field(default_factory=dict)


class Metrics:
    """Holds the latest samples and renders them; a job that is not in them is not shown.

    `show` and `render` may be called from different threads.
    """

    def __init__(self) -> None:
        self._collector = _Jobs()
        self._registry = CollectorRegistry()
        self._registry.register(self._collector)

    def show(self, samples: Iterable[JobSample]) -> None:
        """Replace all samples, at once."""
        self._collector.samples = tuple(samples)

    def render(self) -> bytes:
        """Return the text of OpenMetrics."""
        return bytes(generate_latest(self._registry))  # type: ignore[no-untyped-call]


class _Jobs(Collector):
    def __init__(self) -> None:
        self.samples: Sequence[JobSample] = ()

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        samples = self.samples  # one look: `show` may replace them meanwhile
        yield from _counters(samples)
        yield from _lags(samples)
        yield from _states(samples)


def _counters(samples: Sequence[JobSample]) -> Iterator[Metric]:
    read = CounterMetricFamily("millrace_read_records", "Records read.", labels=_JOB)
    fates = CounterMetricFamily(
        "millrace_records", "Records read, by what became of them.", labels=(*_JOB, "fate")
    )
    written = CounterMetricFamily(
        "millrace_written_records", "Records written, by stream.", labels=(*_JOB, "stream")
    )
    for sample in samples:
        job, ledger = (sample.pipeline, sample.job), sample.status.progress.fates
        read.add_metric(job, ledger.read)
        for fate, count in _known(ledger):
            fates.add_metric((*job, fate), count)
        for stream, count in ledger.written.items():
            written.add_metric((*job, stream), count)
    return iter((read, fates, written))


def _known(ledger: Fates) -> Iterator[tuple[str, int]]:
    """The fates with their counts, without those that are unknown."""
    for fate in FATES:
        count: int | None = getattr(ledger, fate)
        if count is not None:
            yield fate, count


def _lags(samples: Sequence[JobSample]) -> Iterator[Metric]:
    records = GaugeMetricFamily(
        "millrace_lag_records", "Records not read yet, by stream.", labels=(*_JOB, "stream")
    )
    seconds = GaugeMetricFamily(
        "millrace_lag_seconds", "Age of the oldest such record.", labels=(*_JOB, "stream")
    )
    latency = GaugeMetricFamily(
        "millrace_latency_seconds", "Latency of records.", labels=(*_JOB, "quantile")
    )
    for sample in samples:
        job = (sample.pipeline, sample.job)
        for stream, count in sample.lag_records.items():
            records.add_metric((*job, stream), count)
        for stream, age in sample.lag_seconds.items():
            seconds.add_metric((*job, stream), age)
        for quantile, took in sample.latency.items():
            latency.add_metric((*job, str(quantile)), took)
    return iter((records, seconds, latency))


def _states(samples: Sequence[JobSample]) -> Iterator[Metric]:
    up = GaugeMetricFamily("millrace_job_up", "1 while the job runs, else 0.", labels=_JOB)
    batch = GaugeMetricFamily(
        "millrace_batch_seconds", "How long the last batch took.", labels=_JOB
    )
    skew = GaugeMetricFamily(
        "millrace_skew_seconds",
        "How long after its own time a record came to the broker, in the mean of the last batch.",
        labels=_JOB,
    )
    for sample in samples:
        job, status = (sample.pipeline, sample.job), sample.status
        up.add_metric(job, 1 if status.state is JobState.RUNNING else 0)
        if status.progress.batch >= 0:
            batch.add_metric(job, status.progress.batch_seconds)
        if status.progress.skew_seconds is not None:
            skew.add_metric(job, status.progress.skew_seconds)
    return iter((up, batch, skew))
