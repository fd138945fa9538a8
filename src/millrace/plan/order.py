"""What must come before what: a graph of steps without circles."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Edge = tuple[str, str]


def components(nodes: Iterable[str], after: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the circles of a graph: its strongly connected parts of more than one node."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found: list[list[str]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(after.get(root, ())))]
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = _unwound(path, on_path, node)
                    if len(part) > 1:
                        found.append(part)
            elif following not in index:
                index[following] = low[following] = len(index)
                path.append(following)
                on_path.add(following)
                work.append((following, iter(after.get(following, ()))))
            elif following in on_path:
                low[node] = min(low[node], index[following])
    return found


def _unwound(path: list[str], on_path: set[str], node: str) -> list[str]:
    part = []
    while True:
        part.append(path.pop())
        on_path.discard(part[-1])
        if part[-1] == node:
            return part


def with_wishes(
    nodes: Iterable[str], needed: Mapping[str, set[str]], wishes: Iterable[Iterable[Edge]]
) -> dict[str, set[str]]:
    """Add wished edges (before, after) to needed ones, as far as no circle comes of it.

    `wishes` are given by rank, dearest first; where wishes and needs make a circle, the least dear
    wishes inside it are given up first.
    """
    ranked = [list(rank) for rank in wishes]
    every = list(nodes)
    while True:
        graph = {node: set(needed.get(node, ())) for node in every}
        for rank in ranked:
            for before, after in rank:
                graph[after].add(before)
        circles = components(every, graph)
        if not circles:
            return graph
        part_of = {node: number for number, part in enumerate(circles) for node in part}
        for rank in reversed(ranked):
            kept = [
                edge
                for edge in rank
                if edge[0] not in part_of or part_of[edge[0]] != part_of.get(edge[1])
            ]
            if len(kept) < len(rank):
                rank[:] = kept
                break
        else:
            return graph  # the needs themselves go in a circle: the caller made sure they don't


def sorted_steps(
    nodes: Iterable[str], after: Mapping[str, set[str]], rank: Callable[[str], Any]
) -> list[str]:
    """Return all nodes, each after those it needs, equal ones by rank."""
    waiting = {node: len(after.get(node, ())) for node in nodes}
    followers: dict[str, list[str]] = {}
    for node in waiting:
        for before in after.get(node, ()):
            followers.setdefault(before, []).append(node)
    ready = [(rank(node), node) for node, count in waiting.items() if not count]
    heapq.heapify(ready)
    done: list[str] = []
    while ready:
        _, node = heapq.heappop(ready)
        done.append(node)
        for follower in followers.get(node, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (rank(follower), follower))
    return done
