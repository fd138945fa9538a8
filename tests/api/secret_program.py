"""The command `millrace` over sites that use their secrets, and that tells all it could tell.

Brokers that have an address are really tried, and jobs that write to a web hook send it a batch
when they start; the rest is as in `tests.coordinator.faked`.
"""

from __future__ import annotations

import json
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from millrace.agent.brokers import broker_of
from millrace.engines.spark.outside.hook import bearer, post
from millrace.engines.spark.outside.undone import Undone
from millrace.errors import OperationFailed
from millrace.machine.secrets import revealed
from millrace.model.pipeline import Pipeline
from millrace.ports import JobOrder
from millrace.testing.fakes import FakeBroker
from tests.coordinator import faked
from tests.coordinator.forked import Forked, forked
from tests.coordinator.town import Town


class HookedEngine(faked.SleepingEngine):
    """An engine that sends a batch to a job's hook as it starts."""

    def start(self, order: JobOrder) -> None:
        """Send, and start where that was taken."""
        write = order.job.write
        if write is not None and write.token is not None:
            token = bearer(revealed(write.token.secret, "token"), "token")
            try:
                post(write.url or "", b"{}\n", {"Authorization": token}, 10)
            except Undone as undone:
                raise OperationFailed("sink-failed", f"job {order.job.name}: {undone}") from None
        super().start(order)


class AskingShop(faked.Shop):
    """A site whose broker is tried, where it has an address."""

    def broker(self, file: Pipeline) -> FakeBroker:
        """Return the one that the file names."""
        found = file.sites[self.site]
        if found.broker is None or found.broker.address is None:
            return self.kafka
        nothing: Any = None  # no Java is needed to reach a broker
        return cast("FakeBroker", broker_of(found, self.folder, nothing, nothing))


class AskingWorkshops(faked.FakedWorkshops):
    """Workshops of such sites."""

    def workshop(self, pipeline: str, site: str) -> faked.Shop:
        """Return the one of a site."""
        shared, own = Path(faked.settings()["folder"]), self.place(pipeline, site)
        engine = HookedEngine(folder=shared, site=site)
        return AskingShop(site, own, faked.TellingBroker(shared, site), engine)


def loud() -> None:
    """Run the command; all of its logs go to where it speaks, and cores would be written here."""
    logging.basicConfig(level=logging.DEBUG)
    os.chdir(faked.settings()["folder"])
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    faked.FakedWorkshops = AskingWorkshops  # type: ignore[misc]
    faked.main()


@dataclass
class LoudTown(Town):
    """A town in which processes run that program."""

    def start(self, home: Path, *arguments: str) -> Forked:
        """Start a command."""
        said = self.folder / f"{len(self.processes)}-{arguments[0]}.said"
        settings = json.dumps({"folder": str(self.folder), "limits": self.limits})
        environment = {"FAKED": settings, "NO_COLOR": "1", "COLUMNS": "300", **self.environment}
        made = forked(loud, [*arguments, "--home", str(home)], said, **environment)
        self.processes.append(made)
        return made


@contextmanager
def loud_town(folder: Path, **environment: str) -> Iterator[LoudTown]:
    """Give a town; all that was started there is ended afterwards."""
    made = LoudTown(folder, environment=environment)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
