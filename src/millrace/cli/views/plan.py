"""A plan for people: what happens in which order, why, and what it costs."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from millrace.model.impact import Impact
from millrace.model.step import Action, Kind, Plan, Step

SYMBOLS = {
    Action.CREATE: ("+", "green"),
    Action.CHANGE: ("~", "yellow"),
    Action.MOVE: (">", "blue"),
    Action.STOP: ("x", "yellow"),
    Action.START: ("^", "yellow"),
    Action.DELETE: ("-", "red"),
}
DEAR = {Impact.REPLACE: "yellow", Impact.STATE_LOST: "bold red"}


def plan_text(plan: Plan) -> Text:
    """Return the steps by levels, the notes and a closing line."""
    if plan.empty:
        text = Text("No changes: what runs is what the file says.\n", style="bold")
        for note in plan.notes:
            text.append(f"Note: {note}\n")
        return text
    text = Text("Steps, in this order (those of one number may run side by side):\n\n")
    levels = plan.levels()
    width = len(str(len(levels)))
    name_width = max(len(_title(step)) for step in plan.steps)
    for number, level in enumerate(levels, 1):
        for step in level:
            text.append(f"{number:>{width}} ", style="dim")
            _step(text, step, width, min(name_width, 44))
    text.append("\n")
    for note in plan.notes:
        text.append("Note: ", style="cyan").append(f"{note}\n")
    return text.append(f"{closing_line(plan)}\n", style="bold")


def _title(step: Step) -> str:
    return f"{step.kind} {step.name}"


def _doubtful(step: Step) -> bool:
    """Whether state is lost only if the job turns out to hold some."""
    lost = step.impact is Impact.STATE_LOST and step.kind is Kind.JOB
    return lost and step.stateful is None


def _step(text: Text, step: Step, width: int, name_width: int) -> None:
    symbol, colour = SYMBOLS[step.action]
    text.append(f"{symbol} {_title(step):<{name_width}}", style=colour)
    place = f"  at {step.place}" if step.place else ""
    text.append(place, style="dim")
    if step.impact is not None and step.action is not Action.DELETE:
        doubt = ", if it has any" if _doubtful(step) else ""
        text.append(f"  {step.impact.text}{doubt}", style=DEAR.get(step.impact, "default"))
    short = step.action in (Action.CREATE, Action.DELETE) or len(step.reasons) == 1
    if short and step.reasons:
        text.append(f"  ({step.reasons[0].text})", style="dim")
    text.append("\n")
    indent = " " * (width + 5)
    if not short:
        for reason in step.reasons:
            text.append(f"{indent}{reason.text}\n", style="dim")
    extras = [f"reads {', '.join(step.drains)} to the end first"] if step.drains else []
    if step.keeps:
        extras.append(f"keeps {', '.join(step.keeps)}")
    if extras:
        text.append(f"{indent}{'; '.join(extras)}\n", style="dim")


def closing_line(plan: Plan) -> str:
    """Return the counts, as terraform's closing line has them."""
    counts = Counter(step.action for step in plan.steps)
    jobs = Counter(step.action for step in plan.steps if step.kind is Kind.JOB)
    words = [f"{counts[action]} to {action}" for action in Action if counts[action]]
    of_jobs = ", ".join(f"{jobs[action]} to {action}" for action in Action if jobs[action])
    plural = "" if plan.untouched == 1 else "s"
    return (
        f"Plan: {', '.join(words)} (jobs: {of_jobs or 'none'}); "
        f"{plan.untouched} job{plural} untouched."
    )
