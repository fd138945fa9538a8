"""What goes wrong with a spool, and what people can do about it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.errors import OperationFailed

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Tell of what the disk refuses in our words."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise OperationFailed(
                "disk-full",
                f"the spool in {folder} can't be written: {error.strerror}",
                "make room there; what was durable can be read, what was not is still held "
                "and goes with the next commit",
                transient=True,
            ) from error
        raise OperationFailed(
            "spool-failed",
            f"the spool in {folder} can't be used: {error}",
            "look whether the folder is there, belongs to this user, and its disk is sound",
            transient=True,
        ) from error


def held(folder: Path) -> OperationFailed:
    """Another process writes."""
    return OperationFailed(
        "spool-held",
        f"another process writes the spool in {folder}",
        "one may at a time: end the other, or give this one a folder of its own",
        transient=True,
    )


def gone(folder: Path, position: int, first: int) -> OperationFailed:
    """What was asked for was trimmed."""
    return OperationFailed(
        "spool-gone",
        f"position {position} of the spool in {folder} is no longer kept: it begins at {first}",
        f"start at {first}, and count the {first - position} records before it as lost; "
        "keep more of the spool if readers fall so far behind",
    )


def damaged(file: Path, position: int, onwards: int, *, last: bool) -> OperationFailed:
    """What was durable is not there as it was written."""
    way = "restart what writes the spool, then " if last else ""
    return OperationFailed(
        "spool-damaged",
        f"{file} is damaged: it does not hold position {position} as it was written",
        f"put the file back from a copy; or {way}start at {onwards} and count up to "
        f"{onwards - position} records as lost; look after the disk",
    )


def mark_damaged(file: Path) -> OperationFailed:
    """Nobody knows how far readers may read."""
    return OperationFailed(
        "spool-damaged",
        f"{file} is damaged: it does not say which positions are durable",
        "restart what writes the spool: it finds out from the segments, and writes it anew",
        transient=True,
    )
