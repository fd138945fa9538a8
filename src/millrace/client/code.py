"""The code of a pipeline's jobs, as it goes to a coordinator: versions and one archive."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.stores.archive import Limits, files, pack
from millrace.stores.versions import versions


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder of code, packed: the same files always give the same."""

    content: bytes
    digest: str


def versioned(pipeline: Pipeline, folder: Path) -> tuple[Pipeline, bool]:
    """Return the file with the version of each job's code, and whether the folder has any.

    A version that the file names stays. Paths that can't be read count as missing: the engine says
    what is wrong with code.
    """
    try:
        found = versions(pipeline, folder)
    except OSError as error:
        raise _unreadable(folder, error) from None
    jobs = {
        name: replace(job, version=found[name]) if name in found and job.version is None else job
        for name, job in pipeline.jobs.items()
    }
    return replace(pipeline, jobs=jobs), bool(found)


def packed(folder: Path) -> Archive:
    """Return a folder as an archive; raises for one that no coordinator would take."""
    try:
        paths = files(folder)
        size = sum(path.stat().st_size for path in paths)
        limits = Limits()
        if size > limits.bytes or len(paths) > limits.entries:
            raise OperationFailed(
                "too-large",
                f"{folder} has {len(paths)} files of {size >> 20} MiB, and "
                f"{limits.entries} of {limits.bytes >> 20} MiB are the most",
                "put the pipeline's file and its code into a folder of their own",
            )
        content = pack(folder)
    except OSError as error:
        raise _unreadable(folder, error) from None
    return Archive(content, hashlib.sha256(content).hexdigest())


def _unreadable(folder: Path, error: OSError) -> OperationFailed:
    return OperationFailed(
        "no-code",
        f"the code in {folder} can't be read: {error.filename or ''}: {error.strerror}",
        "make all of the folder readable, or put the code into one of its own",
    )
