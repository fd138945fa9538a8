"""Two real sites with a Spark and a Kafka each: a chain crosses the link between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from millrace.experiment.links import Link
from millrace.experiment.port import Around
from millrace.experiment.sites import local_sites
from millrace.experiment.speck.chains import Chain, on_spark
from millrace.experiment.speck.figure6 import EXPERIMENT
from millrace.experiment.speck.hosts import ComposedHost

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
LINK = Link("s0-s1", ("s0", "s1"), 0.0186)


def test_a_chain_over_a_link(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    declared = replace(EXPERIMENT.declared, links=(LINK,))
    said: list[str] = []
    chain = Chain("c", ("s0", "s1", "s0"))
    with local_sites(Around(declared, tmp_path, said.append)) as local:
        host = ComposedHost(local, on_spark(("s0", "s1")))
        host.begin()
        host.deploy(chain)
        idle = local.doors.carrier.carried(LINK.name)
        host.through(chain)
        there, back = local.doors.carrier.carried(LINK.name)
        assert there > idle[0]
        assert back > idle[1]
        runs = {job.name: job.run for job in local.station.jobs("figure6")}
        host.modify(chain, [1])
        changed = {job.name for job in local.station.jobs("figure6") if job.run != runs[job.name]}
        assert changed == {"c_j1"}
        host.delete(chain)
        assert {job.name for job in local.station.jobs("figure6")} == {"base_s0_j0", "base_s1_j0"}
    assert set(psutil.Process().children(recursive=True)) <= before
