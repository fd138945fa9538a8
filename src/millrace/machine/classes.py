"""Archives of the classes that a Java program loads: with one it is up in half the time.

Java writes an archive when a program ends that was told to, and maps it into later ones. One that
does not fit (another Java, other jars) is left unused by Java, so it can do no harm.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.machine.jars import alone
from millrace.machine.java import Java

#: Up to 170 MB each: those of a Java or of jars that are no longer there are removed.
KEPT = 3
#: Runs the program to its end, in a folder, with options for Java.
Run = Callable[[Path, tuple[str, ...]], object]


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive for one Java and one folder of jars; perhaps not written yet."""

    place: Path

    @classmethod
    def of(cls, folder: Path, java: Java, jars: Path, *variables: str) -> ClassArchive:
        """Return where it is in `folder`; `variables` also change which classes are loaded."""
        stamps = [path.stat().st_mtime_ns for path in (java.program, jars) if path.exists()]
        known = [str(java.home), str(jars), stamps, [os.environ.get(name) for name in variables]]
        digest = hashlib.sha256(repr(known).encode()).hexdigest()[:16]
        return cls(folder / f"{digest}.jsa")

    @property
    def options(self) -> tuple[str, ...]:
        """The options with which Java reads it, if it was written."""
        there = self.place.is_file() and self.place.stat().st_size > 0
        return (f"-XX:SharedArchiveFile={self.place}",) if there else ()

    def write(self, run: Run, told: Callable[[], None]) -> None:
        """Write it if that was never tried; `told` is called before. Failing does no harm.

        Several processes may ask at once: one writes, the others wait. What failed once is not
        tried again: an empty file stands for it.
        """
        if self.place.exists():
            return
        folder = self.place.parent
        with alone(folder):
            if not self.place.exists():
                told()
                self._write(run)
                _remove_old(folder)

    def _write(self, run: Run) -> None:
        work = self.place.with_suffix(".work")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        fresh = work / "classes.jsa"
        try:
            run(work, (f"-XX:ArchiveClassesAtExit={fresh}",))
            if fresh.exists():
                fresh.rename(self.place)
            else:
                self.place.touch()
        except (OperationFailed, OSError, subprocess.SubprocessError):
            self.place.touch()
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _remove_old(folder: Path) -> None:
    found = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in found[KEPT:]:
        old.unlink(missing_ok=True)
