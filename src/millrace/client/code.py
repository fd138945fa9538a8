"""The code of a pipeline's jobs, as it goes to a coordinator: versions and one archive."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millrace.errors import OperationFailed
from millrace.model.pipeline import Pipeline
from millrace.stores.archive import Limits, files, pack
from millrace.stores.versions import versions
from millrace.wire import pipeline_document


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder of code, packed: the same files always give the same."""

    content: bytes
    digest: str


def versioned(pipeline: Pipeline, folder: Path) -> tuple[Pipeline, bool]:
    """Return the file with the version of each job's code, and whether the folder has any.

    A version that the file names stays. Paths that can't be read count as missing: the engine says
    what is wrong with code. Raises where the folder, which all sites get, holds a secret of it.
    """
    try:
        found = versions(pipeline, folder)
        if found:
            _refuse_secrets(pipeline, folder)
    except OSError as error:
        raise _unreadable(folder, error) from None
    jobs = {
        name: replace(job, version=found[name]) if name in found and job.version is None else job
        for name, job in pipeline.jobs.items()
    }
    return replace(pipeline, jobs=jobs), bool(found)


def _refuse_secrets(pipeline: Pipeline, folder: Path) -> None:
    named = set(_secret_files(pipeline_document(pipeline)))
    kept = {(start / name).resolve() for name in named for start in (folder, Path.cwd())}
    for path in files(folder) if kept else ():
        if path.resolve() in kept:
            raise OperationFailed(
                "secret-in-code",
                f"{path} holds a secret, and lies in the folder that goes to all sites as code",
                "put it elsewhere, or give it a name that begins with a dot",
            )


def _secret_files(document: Any) -> Iterator[str]:
    """The files that a document names as those of secrets."""
    if isinstance(document, dict):
        reference = document.get("secret")
        if isinstance(reference, str) and reference.startswith("file:"):
            yield reference.removeprefix("file:")
    inner = document.values() if isinstance(document, dict) else document
    for item in inner if isinstance(document, dict | list) else ():
        yield from _secret_files(item)


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
