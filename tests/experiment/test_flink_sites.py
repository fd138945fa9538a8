"""Two real sites with a Flink and a Mosquitto each: a chain crosses the link between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from millrace.experiment.links import Link
from millrace.experiment.port import Around
from millrace.experiment.speck.chains import Chain
from millrace.experiment.speck.figure6 import EXPERIMENT
from millrace.experiment.speck.flink import on_flink
from millrace.experiment.speck.hosts import PIPELINE, ComposedHost

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(240),
    pytest.mark.needs("javac"),
    pytest.mark.needs("mosquitto"),
]
LINK = Link("s0-s1", ("s0", "s1"), 0.0186)


def test_a_chain_of_jars_over_a_link(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    declared = replace(EXPERIMENT.declared, links=(LINK,))
    chain = Chain("c", ("s0", "s1", "s0"))
    with on_flink(("s0", "s1"), Around(declared, tmp_path, print)) as (local, composition):
        host = ComposedHost(local, composition)
        host.begin()
        host.deploy(chain)
        idle = local.doors.carrier.carried(LINK.name)
        host.through(chain)
        there, back = local.doors.carrier.carried(LINK.name)
        assert there - idle[0] >= 100  # a record is so long, and passes once each way
        assert back - idle[1] >= 100
        runs = {job.name: job.run for job in local.station.jobs(PIPELINE)}
        host.modify(chain, [1])
        changed = {job.name for job in local.station.jobs(PIPELINE) if job.run != runs[job.name]}
        assert changed == {"c_j1"}
        host.through(chain)
        host.delete(chain)
        assert {job.name for job in local.station.jobs(PIPELINE)} == {"base_s0_j0", "base_s1_j0"}
    assert set(psutil.Process().children(recursive=True)) <= before
