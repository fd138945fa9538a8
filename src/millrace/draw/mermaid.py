"""A picture as Mermaid text."""

from __future__ import annotations

from millrace.draw.picture import Dot, Picture
from millrace.model.step import Action, Kind

_CLASSES = {
    Action.CREATE: "create",
    Action.CHANGE: "change",
    Action.MOVE: "move",
    Action.START: "change",
    Action.DELETE: "gone",
}


def mermaid(picture: Picture) -> str:
    """Return a flow chart: sites as subgraphs, jobs as boxes, streams as rounded boxes."""
    ids = {dot.id: f"n{number}" for number, dot in enumerate(picture.dots)}
    lines = ["flowchart LR"]
    for number, box in enumerate(picture.boxes):
        lines.append(f'  subgraph s{number}["{_text(box.name)} ({_text(box.note)})"]')
        lines += [f"    {_node(ids[dot.id], dot)}" for dot in picture.dots if dot.box == box.name]
        lines.append("  end")
    lines += [
        f"  {_node(ids[dot.id], dot)}"
        for dot in picture.dots
        if all(dot.box != box.name for box in picture.boxes)
    ]
    for arrow in picture.arrows:
        line = "-.->" if arrow.gone else "-->"
        lines.append(f"  {ids[arrow.source]} {line} {ids[arrow.target]}")
    lines.append("  classDef stream fill:#e8f1fb,stroke:#7aa7d9,color:#1d3a57")
    lines.append("  classDef job fill:#ffffff,stroke:#5b6b7b,color:#1c2733")
    if any(dot.inside for dot in picture.dots):
        lines.append("  classDef inside fill:#ffffff,stroke:#7aa7d9,stroke-dasharray:2")
    if picture.planned:
        lines += [
            "  classDef create fill:#dff5e3,stroke:#2e8b4f",
            "  classDef change fill:#fff3d1,stroke:#b98900",
            "  classDef move fill:#e3e4fb,stroke:#4a55c4",
            "  classDef gone fill:#fbe3e3,stroke:#c0392b,stroke-dasharray:4",
        ]
    return "\n".join(lines) + "\n"


def _node(name: str, dot: Dot) -> str:
    style = _CLASSES[dot.mark] if dot.mark is not None else dot.kind.value
    style = "inside" if dot.inside else style
    text = f"{_text(dot.name)}<br/><small>{_text(dot.note)}</small>"
    shape = f'["{text}"]' if dot.kind is Kind.JOB else f'(["{text}"])'
    return f"{name}{shape}:::{style}"


def _text(text: str) -> str:
    """Mermaid reads these characters as its own."""
    for char, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(char, code)
    return text
