"""Where records come from and go to beside brokers: files, databases, programs, web hooks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import ClassVar

from millrace.model.impact import Impact, setting
from millrace.model.quantity import Duration
from millrace.model.types import Secret


class Holds(StrEnum):
    """What a file that is read holds."""

    LINES = "lines"
    PARQUET = "parquet"


@dataclass(frozen=True)
class Read:
    """A source: files that grow, a recorded file at its own pace, or a query asked again."""

    SHORT: ClassVar[str | None] = "files"
    #: Exactly one of these is given.
    KINDS: ClassVar[tuple[str, ...]] = ("files", "replay", "query")

    files: str | None = setting(
        "files by a pattern, or all of a folder: each line a record, and more as they grow",
        default=None,
        example="logs/*.jsonl",
    )
    holds: Holds = setting("what the files hold", default=Holds.LINES)
    replay: str | None = setting(
        "a recorded file, line by line at the pace of its records' own times; ends with the file",
        default=None,
        example="trips.jsonl",
    )
    speed: float = setting(
        "how many times faster than it was recorded", change=Impact.RESTART, default=1.0
    )
    query: str | None = setting(
        "a query that gives rows, asked again for those that are new",
        default=None,
        example="SELECT id, plate FROM cars",
    )
    database: str | None = setting(
        "where it is asked: sqlite:PATH or postgresql://USER@HOST/NAME", default=None
    )
    password: Secret | None = setting(
        "the database's password", change=Impact.RESTART, default=None
    )
    by: str | None = setting(
        "replay: the column of time; query: the column of whole numbers that only grows",
        default=None,
    )
    settles: Duration | None = setting(
        "how long a row of a query may be in the making: others with greater numbers wait for it",
        change=Impact.RESTART,
        default=None,
    )

    @property
    def kind(self) -> str:
        """Return which of KINDS it is; empty where a file forgot to say."""
        return next((kind for kind in self.KINDS if getattr(self, kind)), "")


class Written(StrEnum):
    """How files are written."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True)
class Write:
    """A sink: files, a program that acts, or a web hook; each batch as a whole, at least once."""

    SHORT: ClassVar[str | None] = "files"
    #: Exactly one of these is given.
    KINDS: ClassVar[tuple[str, ...]] = ("files", "command", "url")

    files: str | None = setting(
        "a folder that gets one folder for each batch", default=None, example="out"
    )
    format: Written = setting("how files are written", default=Written.JSON)
    command: tuple[str, ...] = setting(
        "a program and its arguments: it reads a batch's records as lines of JSON",
        change=Impact.RESTART,
        default=(),
        example="[./ring-the-bell]",
    )
    url: str | None = setting(
        "a web hook that is sent a batch's records as lines of JSON",
        change=Impact.RESTART,
        default=None,
    )
    token: Secret | None = setting("the hook's bearer token", change=Impact.RESTART, default=None)
    timeout: Duration = setting(
        "how long the program or the hook may take for a batch",
        change=Impact.RESTART,
        default=Duration(30 * Duration.UNITS["s"]),
    )

    @property
    def kind(self) -> str:
        """Return which of KINDS it is; empty where a file forgot to say."""
        return next((kind for kind in self.KINDS if getattr(self, kind)), "")


def is_inner(host: str) -> bool:
    """Whether a host is this machine, or what only it reaches: loopback, link-local, any address.

    By what is written; a name other than `localhost` may stand for anything.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_link_local or address.is_unspecified
