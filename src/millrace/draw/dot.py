"""A picture as text for Graphviz."""

from __future__ import annotations

from millrace.draw.picture import Dot, Picture
from millrace.model.step import Action, Kind

_FILLS = {
    Action.CREATE: "#dff5e3",
    Action.CHANGE: "#fff3d1",
    Action.MOVE: "#e3e4fb",
    Action.START: "#fff3d1",
    Action.DELETE: "#fbe3e3",
}


def dot(picture: Picture) -> str:
    """Return a digraph: sites as clusters, jobs as boxes, streams as ellipses."""
    lines = [
        f"digraph {_text(picture.title)} {{",
        "  rankdir=LR; compound=true;",
        '  graph [fontname="Helvetica", style="rounded,filled", fillcolor="#f5f7fa", '
        'color="#c5ced8"];',
        '  node [fontname="Helvetica", fontsize=11, style="filled,rounded"];',
        '  edge [color="#8696a7", arrowsize=0.7];',
    ]
    for number, box in enumerate(picture.boxes):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f"    label={_text(f'{box.name} ({box.note})')};")
        lines += [f"    {_node(node)}" for node in picture.dots if node.box == box.name]
        lines.append("  }")
    lines += [
        f"  {_node(node)}"
        for node in picture.dots
        if all(node.box != box.name for box in picture.boxes)
    ]
    for arrow in picture.arrows:
        style = " [style=dashed]" if arrow.gone else ""
        lines.append(f"  {_text(arrow.source)} -> {_text(arrow.target)}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _node(node: Dot) -> str:
    plain = "#ffffff" if node.kind is Kind.JOB else "#e8f1fb"
    fill = _FILLS[node.mark] if node.mark is not None else plain
    shape = "box" if node.kind is Kind.JOB else "ellipse"
    label = _text(f"{node.name}\n{node.note}")
    style = ', style="filled,dashed"' if node.inside else ""
    return f'{_text(node.id)} [label={label}, shape={shape}, fillcolor="{fill}"{style}];'


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
