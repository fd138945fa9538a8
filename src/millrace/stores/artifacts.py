"""Files by what is in them: an artifact is kept once, under its SHA-256."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import OperationFailed

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Artifacts:
    """A folder of artifacts; any number of processes may use it at once."""

    folder: Path
    #: The most bytes that one may have; what jobs keep moves as one.
    largest: int = 64 << 30

    def put(
        self, content: Iterable[bytes], expected: str | None = None, largest: int | None = None
    ) -> str:
        """Keep what comes and return its digest; raises, with nothing kept, if it is another's.

        It is written beside its place and moved there whole. `largest` is for who may send less.
        """
        most = self.largest if largest is None else min(largest, self.largest)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        total, size = hashlib.sha256(), 0
        descriptor, name = tempfile.mkstemp(prefix="new-", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for piece in content:
                    size += len(piece)
                    if size > most:
                        raise OperationFailed(
                            "too-large",
                            f"an artifact may have {most >> 20} MiB at most",
                            "leave out what the jobs don't need: data, environments, builds",
                        )
                    total.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            digest = total.hexdigest()
            if expected not in (None, digest):
                raise OperationFailed(
                    "other-content",
                    f"an artifact came that is {digest}, and {expected} was announced",
                    "it was cut or changed on the way: send it again",
                    transient=True,
                )
            Path(name).replace(self._place(digest))
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
        return digest

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Return those that are not here."""
        return [digest for digest in digests if not self._place(digest).is_file()]

    def path(self, digest: str) -> Path:
        """Return the file of an artifact; raises where it is not here."""
        place = self._place(digest)
        if not place.is_file():
            raise OperationFailed("no-artifact", f"there is no artifact {digest}")
        return place

    def pieces(self, digest: str) -> Iterator[bytes]:
        """Give an artifact piece by piece."""
        with self.path(digest).open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def _place(self, digest: str) -> Path:
        """A digest names a file here, and nothing else does."""
        if not _DIGEST.fullmatch(digest):
            raise OperationFailed("no-artifact", f"{digest[:80]!r} is no digest of an artifact")
        return self.folder / digest


@dataclass(frozen=True, slots=True)
class LocalDepot:
    """See the port `Depot`: artifacts that are on this machine already."""

    artifacts: Artifacts

    def fetch(self, artifact: str) -> Path:
        """Return the file of an artifact."""
        return self.artifacts.path(artifact)

    def send(self, file: Path) -> str:
        """Keep a file as an artifact."""
        with file.open("rb") as opened:
            return self.artifacts.put(iter(lambda: opened.read(_PIECE), b""))
