"""Placeholder allocations on resources, in which frameworks are started."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal

from millrace.errors import Location
from millrace.model.impact import Impact, setting
from millrace.model.quantity import Duration
from millrace.model.types import Count, PilotName


class FrameworkKind(StrEnum):
    """What a pilot runs; `agent` makes a site of it."""

    SPARK = "spark"
    KAFKA = "kafka"
    DASK = "dask"
    FLINK = "flink"
    AGENT = "agent"


@dataclass(frozen=True)
class Pilot:
    """An allocation on a resource, grown and shrunk while it works."""

    SECTION: ClassVar[Literal["pilots"]] = "pilots"
    SHORT: ClassVar[str | None] = None

    name: str = ""
    at: Location | None = field(default=None, compare=False, repr=False)
    resource: str = setting(
        "where the allocation is made: local, ssh://user@host, slurm://localhost, "
        "slurm+ssh://user@host",
        change=Impact.REPLACE,
        default="local://localhost",
        example="slurm+ssh://me@login1",
    )
    framework: FrameworkKind = setting(
        "what runs in it", change=Impact.REPLACE, default=FrameworkKind.AGENT
    )
    cores: Count = setting("cores in all", change=Impact.RESCALE, default=1)
    nodes: Count | None = setting("nodes in all", change=Impact.RESCALE, default=None)
    cores_per_node: Count | None = setting("cores of a node", change=Impact.RESCALE, default=None)
    queue: str | None = setting("the batch queue", change=Impact.REPLACE, default=None)
    walltime: Duration | None = setting(
        "how long the allocation lives", change=Impact.REPLACE, default=None
    )
    project: str | None = setting("the account to charge", change=Impact.REPLACE, default=None)
    working_directory: str | None = setting(
        "where its files go", change=Impact.REPLACE, default=None
    )
    config: str | None = setting(
        "a set of native configuration files, by name", change=Impact.RESTART, default=None
    )
    parent: PilotName | None = setting(
        "the pilot whose framework this one extends", change=Impact.REPLACE, default=None
    )
