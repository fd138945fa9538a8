from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from millrace.draw import dot, mermaid, picture, svg
from millrace.draw.layout import layout
from millrace.draw.picture import Picture
from millrace.model import Pipeline, Stream
from millrace.model.status import Observed
from millrace.model.step import Action
from millrace.plan import plan
from millrace.spec import load, load_text
from tests.conftest import FIXTURES

EXAMPLE = Path(__file__).parents[2] / "examples" / "road-traffic" / "pipeline.yaml"
NS = "{http://www.w3.org/2000/svg}"
NASTY = """
pipeline: 'a"b<c>&#\\'
sites: {n: {broker: kafka}, m: {broker: kafka, engine: [spark, process]}}
streams: {a: {site: n}, b: {site: m}, c: {site: n}, d: {site: m, partitions: 3}}
jobs:
  j: {site: n, from: a, to: [b, c], process: '"<x>"', replicas: 2, engine: spark}
  k: {site: m, from: b, to: c, sql: x, window: 3 s}
  l: {site: m, from: [a, c], to: d, sql: x}
"""


def traffic() -> Picture:
    return picture(load(EXAMPLE).required())


def planned() -> Picture:
    old = load(FIXTURES / "speck-listing-1.1.yaml").required()
    new = load(FIXTURES / "speck-listing-1.2.yaml").required()
    return picture(new, old, plan(new, Observed(old), {}))


def nasty() -> Picture:
    return picture(load_text(NASTY).required())


PICTURES = [traffic, planned, nasty]


@pytest.mark.parametrize("make", PICTURES)
def test_the_svg_shows_every_node_and_arrow(make: type) -> None:
    shown: Picture = make()
    root = ElementTree.fromstring(svg(shown))  # noqa: S314 - our own text
    titles = [title.text or "" for title in root.iter(f"{NS}title")]
    assert len(titles) == len(shown.dots)
    for item in shown.dots:
        assert any(title.startswith(f"{item.id} at {item.box}") for title in titles)
    paths = [path for path in root.iter(f"{NS}path") if "flow" in path.get("class", "")]
    assert len(paths) == len(shown.arrows)
    assert root.get("aria-label") == shown.title


@pytest.mark.parametrize("make", PICTURES)
def test_nodes_stand_inside_their_site_and_never_on_each_other(make: type) -> None:
    shown: Picture = make()
    places = layout(shown)
    cells = list(places.cells.values())
    for index, one in enumerate(cells):
        for other in cells[index + 1 :]:
            apart = (
                one.x + one.width <= other.x
                or other.x + other.width <= one.x
                or one.y + one.height <= other.y
                or other.y + other.height <= one.y
            )
            assert apart
    for item in shown.dots:
        cell, box = places.cells[item.id], places.boxes[item.box]
        assert box.x < cell.x
        assert cell.x + cell.width < box.x + box.width
        assert box.y < cell.y
        assert cell.y + cell.height < box.y + box.height


def test_long_arrows_go_through_free_cells() -> None:
    places = layout(traffic())
    assert places.routes["job forward-north", "stream merged"]


def test_a_plan_marks_what_it_does() -> None:
    marks = {item.id: item.mark for item in planned().dots}
    assert marks["job B"] is Action.DELETE
    assert marks["job C2"] is Action.CREATE
    assert marks["job C"] is Action.CHANGE
    assert marks["job D"] is Action.MOVE
    assert marks["stream T-D-merger"] is Action.MOVE
    assert marks["job A"] is None
    text = svg(planned())
    for word in ("create", "change", "move", "delete", "untouched"):
        assert f">{word}</text>" in text


@pytest.mark.needs("dot")
@pytest.mark.parametrize("make", PICTURES)
def test_graphviz_takes_the_dot(make: type) -> None:
    shown: Picture = make()
    done = subprocess.run(
        ["dot", "-Tplain"], input=dot(shown), capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert sum(line.startswith("node ") for line in lines) == len(shown.dots)
    assert sum(line.startswith("edge ") for line in lines) == len(shown.arrows)


@pytest.mark.parametrize("make", PICTURES)
def test_mermaid_names_every_node_once(make: type) -> None:
    shown: Picture = make()
    text = mermaid(shown)
    assert text.startswith("flowchart LR\n")
    for number, _ in enumerate(shown.dots):
        lines = [line.strip() for line in text.splitlines()]
        declared = [line for line in lines if line.startswith((f"n{number}[", f"n{number}("))]
        assert len(declared) == 1
    assert text.count("-->") + text.count("-.->") == len(shown.arrows)
    assert text.count("subgraph") == len(shown.boxes)


def test_an_empty_pipeline_is_a_small_picture() -> None:
    empty = picture(load_text("pipeline: p").required())
    assert ElementTree.fromstring(svg(empty)) is not None  # noqa: S314
    assert layout(empty).width == 0


def test_streams_of_no_known_site_are_drawn_beside() -> None:
    lone = picture(Pipeline("p", streams={"a": Stream(name="a")}))
    assert "n0" in mermaid(lone)
    assert '"stream a"' in dot(lone)
