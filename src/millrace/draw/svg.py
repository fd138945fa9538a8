"""A picture as SVG, drawn to be read: no scripts, no fonts to fetch, titles on everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from millrace.draw.layout import Layout, Place, layout
from millrace.draw.picture import Arrow, Box, Dot, Picture
from millrace.model.step import Action, Kind

MARGIN: Final = 24
TITLE: Final = 52
FOOT: Final = 34
LETTERS: Final = 20

STYLE: Final = """
  text { font-family: Inter, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1c2733 }
  .title { font-size: 19px; font-weight: 650 } .note { font-size: 12px; fill: #5b6b7b }
  .site { fill: #f4f7fa; stroke: #cfd8e3; stroke-width: 1.2 }
  .site-name { font-size: 13px; font-weight: 650; fill: #33475b }
  .name { font-size: 12px; font-weight: 600 } .small { font-size: 10px; fill: #5b6b7b }
  .job { fill: #ffffff; stroke: #8494a5; stroke-width: 1.2 }
  .stream { fill: #e6f0fb; stroke: #86aedb; stroke-width: 1.2 }
  .inside { fill: #ffffff; stroke: #86aedb; stroke-width: 1.2; stroke-dasharray: 2 3 }
  .create { fill: #ddf4e2; stroke: #2e8b4f; stroke-width: 1.6 }
  .change { fill: #fff1cc; stroke: #b98900; stroke-width: 1.6 }
  .move { fill: #e4e5fc; stroke: #4a55c4; stroke-width: 1.6 }
  .delete { fill: #fbe4e2; stroke: #c0392b; stroke-width: 1.6; stroke-dasharray: 5 3 }
  .flow { fill: none; stroke: #93a3b3; stroke-width: 1.4 }
  .gone { stroke: #d99b94; stroke-dasharray: 5 4 }
  .kind { stroke: none }
"""
_KINDS: Final = {
    "sql": "#2f6fb3",
    "python": "#3b8f6b",
    "map": "#3b8f6b",
    "aggregate": "#7b57b2",
    "state": "#7b57b2",
    "jar": "#b36a2f",
    "process": "#566573",
    "generator": "#b33f62",
}
_CLASS: Final = {
    Action.CREATE: "create",
    Action.CHANGE: "change",
    Action.MOVE: "move",
    Action.START: "change",
    Action.DELETE: "delete",
    Action.STOP: "change",
}


def svg(picture: Picture) -> str:
    """Return the picture as one SVG document."""
    places = layout(picture)
    width = max(places.width + 2 * MARGIN, 460)
    height = places.height + TITLE + FOOT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label={quoteattr(picture.title)}>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0.6 7.4 4 0 7.4z" fill="#93a3b3"/></marker>'
        "</defs>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text class="title" x="{MARGIN}" y="30">{escape(picture.title)}</text>',
        f'<text class="note" x="{MARGIN}" y="47">{escape(picture.note)}</text>',
        f'<g transform="translate({MARGIN} {TITLE + 8})">',
        *(_box(box, places.boxes[box.name]) for box in picture.boxes),
        *(_arrow(arrow, places) for arrow in picture.arrows),
        *(_dot(dot, places.cells[dot.id]) for dot in picture.dots),
        "</g>",
        *_legend(picture, height - 14),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(box: Box, place: Place) -> str:
    note = f'<tspan class="small" dx="8" font-weight="400">{escape(box.note)}</tspan>'
    return (
        f'<rect class="site" x="{place.x:g}" y="{place.y:g}" width="{place.width:g}" '
        f'height="{place.height:g}" rx="12"/>'
        f'<text class="site-name" x="{place.x + 14:g}" y="{place.y + 21:g}">'
        f"{escape(_short(box.name, 28))}{note}</text>"
    )


def _arrow(arrow: Arrow, places: Layout) -> str:
    source, target = places.cells[arrow.source], places.cells[arrow.target]
    style = "flow gone" if arrow.gone else "flow"
    if target.x + target.width < source.x:  # back to a box on the left
        ends = (source.x, target.x + target.width + 2)
        path = f"M{ends[0]:g} {_middle(source):g}"
        path += _curve(ends[0], _middle(source), ends[1], _middle(target))
        return f'<path class="{style}" marker-end="url(#tip)" d="{path}"/>'
    x, y = source.x + source.width, _middle(source)
    path = f"M{x:g} {y:g}"
    for cell in (places.cells[name] for name in places.routes[arrow.source, arrow.target]):
        path += _curve(x, y, cell.x, _middle(cell))
        x, y = cell.x + cell.width, _middle(cell)
        path += f"H{x:g}"
    path += _curve(x, y, target.x - 2, _middle(target))
    return f'<path class="{style}" marker-end="url(#tip)" d="{path}"/>'


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    """Leave and arrive level, whichever way."""
    reach = (x2 - x1) / 2
    return f"C{x1 + reach:g} {y1:g} {x2 - reach:g} {y2:g} {x2:g} {y2:g}"


def _middle(place: Place) -> float:
    return place.y + place.height / 2


def _dot(dot: Dot, place: Place) -> str:
    is_job = dot.kind is Kind.JOB
    style = _CLASS[dot.mark] if dot.mark is not None else dot.kind.value
    style = "inside" if dot.inside else style
    radius = 7 if is_job else place.height / 2
    indent = place.x + (16 if is_job else 20)
    stripe = ""
    if is_job:
        colour = _KINDS.get(dot.note.split(" ")[0], "#566573")
        stripe = (
            f'<rect class="kind" x="{place.x + 5:g}" y="{place.y + 8:g}" width="4" '
            f'height="{place.height - 16:g}" rx="2" fill="{colour}"/>'
        )
    title = f"{dot.kind} {dot.name} at {dot.box}: {dot.note}"
    if dot.mark is not None:
        title += f" ({dot.mark})"
    return (
        f"<g><title>{escape(title)}</title>"
        f'<rect class="{style}" x="{place.x:g}" y="{place.y:g}" width="{place.width:g}" '
        f'height="{place.height:g}" rx="{radius:g}"/>{stripe}'
        f'<text class="name" x="{indent:g}" y="{place.y + 17:g}">{escape(_short(dot.name))}</text>'
        f'<text class="small" x="{indent:g}" y="{place.y + 31:g}">'
        f"{escape(_short(dot.note, 25))}</text></g>"
    )


def _legend(picture: Picture, y: float) -> Iterator[str]:
    entries = [("job", "job"), ("stream", "stream")]
    if picture.planned:
        used = {dot.mark for dot in picture.dots}
        entries = [
            (_CLASS[action], word)
            for action, word in (
                (Action.CREATE, "create"),
                (Action.CHANGE, "change"),
                (Action.MOVE, "move"),
                (Action.DELETE, "delete"),
            )
            if action in used
        ]
        entries.append(("job", "untouched"))
    x = MARGIN
    for style, word in entries:
        radius = 7 if style == "stream" else 3
        yield (
            f'<rect class="{style}" x="{x}" y="{y - 10:g}" width="18" height="12" '
            f'rx="{radius}"/><text class="note" x="{x + 25}" y="{y:g}">{word}</text>'
        )
        x += 40 + 8 * len(word)


def _short(text: str, letters: int = LETTERS) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"
