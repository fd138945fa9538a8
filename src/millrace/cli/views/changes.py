"""Changes of a running pipeline: what is planned, how far it is, and how long jobs stood still."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from millrace.cli.views.ages import plain, span
from millrace.cli.views.plan import plan_text
from millrace.model.step import Plan
from millrace.wire import plan_document, plan_of

View = Mapping[str, Any]


def plan_of_view(view: View) -> Plan:
    """Return the plan that a coordinator tells, as one that was made here."""
    steps = [{"stateful": None, "drains": (), "joins": (), **step} for step in view["steps"]]
    known = {step["id"] for step in steps}
    for step in steps:
        step["after"] = [name for name in step["after"] if name in known]
    return plan_of({"steps": steps, "untouched_jobs": view["untouched"], "notes": view["notes"]})


def plan_view_text(view: View) -> Text:
    """Return a coordinator's plan for people, with how long jobs are foreseen to stand still."""
    text = Text(f"{plain(view['pipeline'])}, against ", style="bold")
    text.append(f"revision {view['revision']}\n" if view["revision"] else "nothing\n", style="bold")
    text.append_text(plan_text(plan_of_view(view)))
    still = [
        f"{step['name']} {span(step['foreseen'])}"
        for step in view["steps"]
        if step["kind"] == "job" and step["foreseen"]
    ]
    if still:
        text.append(f"Foreseen to stand still: {', '.join(still)}.\n")
    return text


def plan_view_document(view: View) -> dict[str, Any]:
    """Return a coordinator's plan for programs: as one that is made here, and what it foresees."""
    document = plan_document(plan_of_view(view))
    foreseen = {step["id"]: step["foreseen"] for step in view["steps"]}
    for step in document["steps"]:
        step["foreseen"] = foreseen[step["id"]]
    return {"pipeline": view["pipeline"], "revision": view["revision"], **document}


def progress_lines(view: View, told: dict[str, str]) -> Iterator[str]:
    """Give a line for each step that went on since what was `told`, which is brought up to date.

    A new state of the whole change has a line of its own, the last one behind all steps.
    """
    fresh = told.get("") != view["state"]
    told[""] = view["state"]
    if fresh and not view["over"]:
        yield f"{view['id']}: {view['state']}"
    for step in view["steps"]:
        state = step["state"]
        if state in ("ordered", "done") and told.get(step["id"]) != state:
            told[step["id"]] = state
            done = sum(state == "done" for name, state in told.items() if name)
            mark = f"[{done}/{view['total']}]" if state == "done" else "begun:"
            yield f"  {mark} {plain(step['id'])} at {plain(step['place'])}"
    if fresh and view["over"]:
        yield f"{view['id']}: {view['state']}"


def as_planned(view: View, plan: View) -> dict[str, Any]:
    """Return a change with what its plan foresaw: a coordinator has learned since then."""
    foreseen = {step["id"]: step["foreseen"] for step in plan["steps"]}
    steps = [
        {**step, "foreseen": foreseen.get(step["id"], step["foreseen"])} for step in view["steps"]
    ]
    return {**view, "steps": steps}


def downtime_text(view: View) -> Text:
    """Return for each job that stood still how long: as it was, beside as foreseen."""
    rows = [
        (plain(step["name"]), span(step["foreseen"]), span(_rounded(step["measured"])))
        for step in view["steps"]
        if step["kind"] == "job" and (step["measured"] is not None or step["foreseen"])
    ]
    text = Text()
    if not rows:
        return text
    width = max(len(name) for name, _, _ in rows)
    text.append("Jobs that stood still:\n")
    for name, foreseen, measured in rows:
        text.append(f"  {name:<{width}}  {measured:>7}  ").append(
            f"(foreseen {foreseen})\n", style="dim"
        )
    return text


def outcome_text(view: View) -> str:
    """Return what became of a change, in a line."""
    took = f" after {span(_rounded(view['ended'] - view['at']))}" if view["ended"] else ""
    if view["state"] == "done":
        if not view["total"]:
            return f"{view['pipeline']}: nothing to do, revision {view['wanted']} is in force"
        return f"{view['pipeline']}: revision {view['wanted']} is in force{took}"
    return f"{view['pipeline']}: {view['id']} is {view['state']}{took if view['over'] else ''}"


def failed_text(view: View) -> tuple[str, str]:
    """Return why a change did not get done, and the way out."""
    reason = plain(view["reason"]) or "no reason was told"
    name, identity = plain(view["pipeline"]), plain(view["id"])
    match view["state"]:
        case "undone":
            return (
                f"{identity} was undone: {reason}",
                f"revision {view['before']} of {name} is in force; change the file, apply it again",
            )
        case "refused":
            return f"{identity} was refused: {reason}", "nothing was changed; change the file"
        case "stuck":
            return (
                f"{identity} is stuck, neither done nor undone: {reason}",
                f"millrace describe operation {identity} tells the step; apply a file that works",
            )
        case state:
            return (
                f"{identity} is not over: {state}",
                f"it goes on; millrace wait {identity} waits for it",
            )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
