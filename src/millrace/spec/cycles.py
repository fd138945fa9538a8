"""The graph of jobs and streams must have no circle."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping

from millrace.model.pipeline import Pipeline


def find_cycle(pipeline: Pipeline) -> list[str] | None:
    """Return a circle as job, stream, job, ..., job, in the direction of the data; or None."""
    graph: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for job in pipeline.jobs.values():
        graph.setdefault(("job", job.name), []).extend(("stream", name) for name in job.reads)
        for name in job.writes:
            graph.setdefault(("stream", name), []).append(("job", job.name))
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        # each node of the circle comes before the one that depends on it: the data's direction
        circle = list(error.args[1])
        start = next(index for index, (kind, _) in enumerate(circle) if kind == "job")
        body = circle[:-1]
        turned = body[start:] + body[:start]
        return [name for _, name in (*turned, turned[0])]
    return None


def circle_of(following: Mapping[str, str | None]) -> list[str] | None:
    """Return a circle in a map from names to the one name that each leads to; or None."""
    done: set[str] = set()
    for start in following:
        path: dict[str, None] = {}
        at: str | None = start
        while at is not None and at not in done and at not in path:
            path[at] = None
            at = following.get(at)
        if at is not None and at in path:
            names = list(path)
            return [*names[names.index(at) :], at]
        done.update(path)
    return None
