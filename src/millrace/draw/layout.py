"""Where everything stands: sites in columns along the data, their nodes in columns inside.

Layered from left to right and the same for the same picture. Small on purpose: no library of this
kind is both free of a system program and free to ship.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from millrace.draw.picture import Picture

NODE_WIDTH: Final = 148
NODE_HEIGHT: Final = 40
COLUMN: Final = NODE_WIDTH + 44
ROW: Final = NODE_HEIGHT + 14
PAD: Final = 18
HEAD: Final = 34
GAP_X: Final = 64
GAP_Y: Final = 22
SWEEPS: Final = 4


Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """A rectangle; x and y are its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of boxes, nodes and of the free cells that long arrows go through."""

    boxes: Mapping[str, Place]
    cells: Mapping[str, Place]
    routes: Mapping[Edge, tuple[str, ...]]
    width: float
    height: float


def layout(picture: Picture) -> Layout:
    """Give every box and every node its place."""
    box_of = {dot.id: dot.box for dot in picture.dots}
    names = list(dict.fromkeys([*(box.name for box in picture.boxes), *box_of.values()]))
    edges = [(arrow.source, arrow.target) for arrow in picture.arrows]
    ranks = _ranks(names, [(box_of[a], box_of[b]) for a, b in edges if box_of[a] != box_of[b]])
    grids: dict[str, list[list[str]]] = {}
    routes: dict[Edge, tuple[str, ...]] = dict.fromkeys(edges, ())
    for name in names:
        nodes = [dot.id for dot in picture.dots if dot.box == name]
        grids[name] = _Grid(nodes, edges, lambda node: ranks[box_of[node]]).columns(routes)
    columns: dict[int, list[str]] = defaultdict(list)
    for name in names:
        columns[ranks[name]].append(name)
    return _placed([columns[rank] for rank in sorted(columns)], grids, routes)


def _ranks(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The longest way from a source; edges that would close a circle are passed over."""
    below: dict[str, set[str]] = defaultdict(set)
    for source, target in edges:
        below[source].add(target)
    order: list[str] = []
    state: dict[str, int] = {}
    back: set[tuple[str, str]] = set()
    for root in nodes:
        work = [(root, iter(sorted(below[root])))] if root not in state else []
        state.setdefault(root, 1)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                state[node] = 2
                order.append(node)
            elif following not in state:
                state[following] = 1
                work.append((following, iter(sorted(below[following]))))
            elif state[following] == 1:
                back.add((node, following))
    rank = dict.fromkeys(nodes, 0)
    for node in reversed(order):
        for target in below[node]:
            if (node, target) not in back:
                rank[target] = max(rank[target], rank[node] + 1)
    return rank


class _Grid:
    """The inside of a box: nodes in columns along the data, with free cells for long arrows."""

    def __init__(self, nodes: list[str], edges: list[Edge], box_rank: Callable[[str], int]) -> None:
        self.nodes = nodes
        here = set(nodes)
        self.edges = [(a, b) for a, b in edges if a in here or b in here]
        self.rank = _ranks(nodes, [(a, b) for a, b in self.edges if a in here and b in here])
        self.box_rank = box_rank

    def columns(self, routes: dict[Edge, tuple[str, ...]]) -> list[list[str]]:
        """Return the cells of each column from top to bottom; add to the routes of arrows."""
        last = max(self.rank.values(), default=-1)
        columns: list[list[str]] = [[] for _ in range(last + 1)]
        for node in self.nodes:
            columns[self.rank[node]].append(node)
        near: dict[str, set[str]] = defaultdict(set)
        for edge in self.edges:
            cells = [(column, self._cell(edge, column)) for column in self._crossed(edge, last)]
            for column, cell in cells:
                if cell not in near:
                    columns[column].append(cell)
            path = [edge[0], *(cell for _, cell in cells), edge[1]]
            for one, other in pairwise(path):
                near[one].add(other)
                near[other].add(one)
            routes[edge] += tuple(cell for _, cell in cells)
        _untangle(columns, near)
        return columns

    def _crossed(self, edge: Edge, last: int) -> range:
        """The columns that an arrow passes on its way, in this box."""
        a, b = edge
        if a in self.rank and b in self.rank:
            return range(self.rank[a] + 1, self.rank[b])
        if self.box_rank(a) >= self.box_rank(b):
            return range(0)
        return range(self.rank[a] + 1, last + 1) if a in self.rank else range(self.rank[b])

    def _cell(self, edge: Edge, column: int) -> str:
        """Arrows from one node out of the box share a way, and so do arrows into one."""
        a, b = edge
        if a in self.rank and b in self.rank:
            return f"{a} > {b} @ {column}"
        return f"{a} > @ {column}" if a in self.rank else f"> {b} @ {column}"


def _untangle(columns: list[list[str]], near: Mapping[str, set[str]]) -> None:
    """Order each column by where its neighbours are, a few times to and fro."""
    height: dict[str, float] = {}
    for column in columns:
        height.update({cell: (index + 0.5) / len(column) for index, cell in enumerate(column)})
    for sweep in range(SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            column.sort(key=lambda cell: (_mean(cell, near.get(cell, ()), height), cell))
            height.update({cell: (index + 0.5) / len(column) for index, cell in enumerate(column)})


def _mean(node: str, others: Iterable[str], height: Mapping[str, float]) -> float:
    known = [height[other] for other in others if other in height]
    return sum(known) / len(known) if known else height[node]


def _placed(
    columns: list[list[str]],
    grids: Mapping[str, list[list[str]]],
    routes: Mapping[Edge, tuple[str, ...]],
) -> Layout:
    sizes = {name: _size(grid) for name, grid in grids.items()}
    heights = [
        sum(sizes[name][1] for name in column) + GAP_Y * (len(column) - 1) for column in columns
    ]
    tallest = max(heights, default=0)
    boxes: dict[str, Place] = {}
    cells: dict[str, Place] = {}
    x: float = 0
    for column, height in zip(columns, heights, strict=True):
        y = (tallest - height) / 2
        width = max(sizes[name][0] for name in column)
        for name in column:
            boxes[name] = Place(x, y, width, sizes[name][1])
            cells.update(_inside(boxes[name], grids[name]))
            y += sizes[name][1] + GAP_Y
        x += width + GAP_X
    return Layout(boxes, cells, routes, max(x - GAP_X, 0), tallest)


def _size(grid: list[list[str]]) -> tuple[float, float]:
    wide, tall = max(len(grid), 1), max((len(column) for column in grid), default=1)
    return (
        wide * COLUMN - (COLUMN - NODE_WIDTH) + 2 * PAD,
        tall * ROW - (ROW - NODE_HEIGHT) + HEAD + PAD,
    )


def _inside(box: Place, grid: list[list[str]]) -> dict[str, Place]:
    places = {}
    tall = max((len(column) for column in grid), default=0)
    for index, column in enumerate(grid):
        top = box.y + HEAD + (tall - len(column)) * ROW / 2
        for row, node in enumerate(column):
            places[node] = Place(
                box.x + PAD + index * COLUMN, top + row * ROW, NODE_WIDTH, NODE_HEIGHT
            )
    return places
