"""An agent's way to its coordinator over HTTP: it always dials out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.machine.web import Web, at
from millrace.ports.link import SiteGoal, SiteReport
from millrace.spec import FileFormat, load_text
from millrace.stores.artifacts import Artifacts
from millrace.wire import goal_of, report_document

#: An answer may be so much later than what was waited for.
_LATER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class HttpLink:
    """See the port `Link`. Artifacts are kept in a folder of the agent's."""

    web: Web
    artifacts: Artifacts

    def tell(self, report: SiteReport) -> None:
        """Tell what is there; see the port."""
        self.web.post(at("agent", "report"), report_document(report), seconds=_LATER_SECONDS)

    def goal(self, known: str, wait: float) -> tuple[str, SiteGoal] | None:
        """Return what shall be there; see the port."""
        answer = self.web.get(
            at("agent", "goal"), {"known": known, "wait": wait}, seconds=wait + _LATER_SECONDS
        )
        if answer.document is None:
            return None
        return str(answer.document["sum"]), read_goal(json.dumps(answer.document["goal"]))

    def fetch(self, artifact: str) -> Path:
        """Return an artifact; it comes over the network once."""
        if self.artifacts.missing([artifact]):
            self.artifacts.put(self.web.pieces(at("agent", "artifacts", artifact)), artifact)
        return self.artifacts.path(artifact)

    def send(self, file: Path) -> str:
        """Send a file to the coordinator, for other sites to fetch."""
        with file.open("rb") as opened:
            digest = self.artifacts.put(iter(lambda: opened.read(1 << 20), b""))
        self.web.upload(at("agent", "artifacts", digest), file)
        return digest


def read_goal(text: str) -> SiteGoal:
    """Return the goal of its text; raises for one that is none."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise OperationFailed("bad-message", "a goal came that is no JSON") from error
    return goal_of(
        document,
        lambda it: load_text(json.dumps(it), "goal", file_format=FileFormat.NATIVE).required(),
    )
