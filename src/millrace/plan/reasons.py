"""Why a thing that keeps its name is another one all the same."""

from __future__ import annotations

from millrace.model.impact import Impact
from millrace.model.pipeline import Pipeline
from millrace.model.step import Reason
from millrace.model.stream import Stream
from millrace.plan.diff import changed, differences

NEW = Reason("new in the file", Impact.IGNORE)
GONE = Reason("no longer in the file", Impact.IGNORE)

#: Fields of a site that do not make it another machine.
NO_PLACE = frozenset({"description", "cores", "toolchain", "engines"})


def pilot_reasons(name: str, before: Pipeline, after: Pipeline) -> tuple[Reason, ...]:
    """Say which field makes a pilot another one; none where only one side has it."""
    if name not in before.pilots or name not in after.pilots:
        return ()
    return differences(before.pilots[name], after.pilots[name])


def site_reasons(name: str, before: Pipeline, after: Pipeline) -> tuple[Reason, ...]:
    """Say which field makes a site, or the pilot that starts it, another machine."""
    old, new = before.sites.get(name), after.sites.get(name)
    if old is None or new is None:
        return ()
    found = differences(old, new, NO_PLACE)
    if new.pilot is not None and new.pilot == old.pilot:
        found += tuple(
            Reason(
                f"pilot {new.pilot}: {reason.text}",
                reason.impact,
                reason.field,
                reason.old,
                reason.new,
            )
            for reason in pilot_reasons(new.pilot, before, after)
        )
    return found


def stream_moves(
    was: Stream, now: Stream, before: Pipeline, after: Pipeline
) -> tuple[Reason, Reason]:
    """Say why a stream is another one: to the new one, and to the old one."""
    if was.site != now.site:
        return (
            Reason(f"moved here from {was.site}", Impact.REPLACE),
            Reason(f"moved to {now.site}", Impact.REPLACE),
        )
    if was.address != now.address or was.transport != now.transport:
        key = "topic" if was.address != now.address else "transport"
        old, new = (was.address, now.address) if key == "topic" else (was.transport, now.transport)
        reason = changed(key, old, new, Impact.REPLACE)
        return reason, reason
    causes = site_reasons(now.site or "", before, after)
    text = causes[0].text if causes else "its broker"
    reason = Reason(f"the broker of {now.site} is another one ({text})", Impact.REPLACE)
    return reason, reason
