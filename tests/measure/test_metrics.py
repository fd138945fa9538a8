"""Jobs as OpenMetrics, read back by the library's own parser, and served to who has the token."""

from __future__ import annotations

import http.client
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from millrace.errors import OperationFailed
from millrace.measure.metrics import JobSample, Metrics
from millrace.measure.metrics_server import MetricsServer, token_of
from millrace.ports import Fates, JobState, JobStatus, Progress

FATES = Fates(
    read=10, used=5, filtered=None, malformed=2, late=1, dropped=0, lost_sight=2,
    written={"clean": 4},
)  # fmt: skip
SAMPLE = JobSample(
    "traffic",
    'a "job"\n',
    JobStatus(JobState.RUNNING, progress=Progress(batch=3, batch_seconds=0.25, fates=FATES)),
    lag_records={"raw": 7},
    lag_seconds={"raw": 1.5},
    latency={0.5: 0.1, 0.99: 0.9},
)


def values(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Return each sample by its name and what labels it has beside pipeline and job."""
    text = metrics.render().decode()
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    found = {}
    for family in families:
        for sample in family.samples:
            more = [v for k, v in sample.labels.items() if k not in ("pipeline", "job")]
            assert sample.labels["pipeline"] == "traffic"
            found[(sample.name, sample.labels["job"], *more)] = float(sample.value)
    return found


def test_a_job_is_rendered_whole() -> None:
    metrics = Metrics()
    metrics.show([SAMPLE])
    job = SAMPLE.job
    assert values(metrics) == {
        ("millrace_read_records_total", job): 10,
        ("millrace_records_total", job, "used"): 5,
        ("millrace_records_total", job, "malformed"): 2,
        ("millrace_records_total", job, "late"): 1,
        ("millrace_records_total", job, "dropped"): 0,
        ("millrace_records_total", job, "lost_sight"): 2,
        ("millrace_written_records_total", job, "clean"): 4,
        ("millrace_lag_records", job, "raw"): 7,
        ("millrace_lag_seconds", job, "raw"): 1.5,
        ("millrace_latency_seconds", job, "0.5"): 0.1,
        ("millrace_latency_seconds", job, "0.99"): 0.9,
        ("millrace_job_up", job): 1,
        ("millrace_batch_seconds", job): 0.25,
    }


@pytest.mark.parametrize("state", list(JobState))
def test_a_job_is_up_only_while_it_runs(state: JobState) -> None:
    metrics = Metrics()
    metrics.show([JobSample("traffic", "job", JobStatus(state))])
    assert values(metrics)["millrace_job_up", "job"] == (state is JobState.RUNNING)


def test_a_job_that_is_gone_is_not_shown() -> None:
    metrics = Metrics()
    metrics.show([SAMPLE])
    metrics.show([])
    assert values(metrics) == {}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MetricsServer]:
    metrics = Metrics()
    metrics.show([SAMPLE])
    with MetricsServer(metrics, tmp_path / "token") as server:
        yield server


def get(
    server: MetricsServer, path: str = "/metrics", token: str | None = None, method: str = "GET"
) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(server.address).netloc, timeout=10)
    try:
        headers = {} if token is None else {"Authorization": token}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_who_has_the_token_sees_the_metrics(server: MetricsServer, tmp_path: Path) -> None:
    token = (tmp_path / "token").read_text().strip()
    code, text = get(server, token=f"Bearer {token}")
    assert code == 200
    assert text.endswith("# EOF\n")
    assert "millrace_job_up{" in text


def test_nobody_else_does(server: MetricsServer, tmp_path: Path) -> None:
    token = (tmp_path / "token").read_text().strip()
    wrong = [
        None, "", "Bearer", "Bearer ", token, f"bearer {token}", f"Bearer {token}x",
        f"Bearer {token[:-1]}", "Bearer \xe9",
    ]  # fmt: skip
    for given in wrong:
        code, text = get(server, token=given)
        assert code == 401, given
        assert "millrace_job_up" not in text


def test_nothing_else_is_there(server: MetricsServer, tmp_path: Path) -> None:
    token = (tmp_path / "token").read_text().strip()
    for path in ("/", "/metrics/", "/metrics/../token", "/token"):
        assert get(server, path, f"Bearer {token}")[0] == 404, path
    assert get(server, token=f"Bearer {token}", method="POST")[0] == 501


def test_it_listens_on_this_machine_only(server: MetricsServer) -> None:
    assert server.address.startswith("http://127.0.0.1:")


def test_a_closed_server_leaves_no_thread_and_no_port(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    server = MetricsServer(Metrics(), tmp_path / "token")
    assert get(server)[0] == 401
    server.close()
    assert not {thread for thread in threading.enumerate() if thread.name == "metrics"} - before
    with pytest.raises(ConnectionRefusedError):
        get(server)


def test_a_token_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = token_of(path)
    assert len(token) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_of(path) == token
    assert token_of(tmp_path / "other") != token


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token_of(path)
    path.chmod(0o640)
    with pytest.raises(OperationFailed, match=r"mode 0640.*chmod 600"):
        token_of(path)


def test_an_empty_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    with pytest.raises(OperationFailed, match="is empty"):
        MetricsServer(Metrics(), path)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="can't be made"):
        token_of(tmp_path / "no" / "token")
