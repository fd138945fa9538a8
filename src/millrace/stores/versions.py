"""The version of each job's code: another one when something that the code is made of is.

What a job is made of is told from the text of its modules, without running any. Where the text
can't tell, all of the folder counts: a job that begins anew for nothing does less harm than one
that goes on with old code.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from millrace.model.job import Job
from millrace.model.pipeline import Pipeline
from millrace.stores.archive import files

_LENGTH = 16
#: With one of these in its text, a module may be made of more than it imports.
_REACHING = frozenset(
    {
        *("importlib", "import_module", "__import__", "pkgutil", "runpy", "exec", "eval"),
        *("open", "read_text", "read_bytes"),
        *("resources", "importlib_resources", "pkg_resources"),
        *("__file__", "__path__", "__spec__", "__loader__"),
    }
)
#: The words of a command, also of one that a shell is given as a whole.
_WORD = re.compile(r"[^\s'\"`;|&<>()=$]+")


def versions(pipeline: Pipeline, folder: Path) -> dict[str, str]:
    """Return the versions of the jobs that have code in a folder, as 16 hexadecimal digits.

    One is made of the names and contents of files, in whatever order they lie there: those of the
    job's modules and of all that these import, also within functions; a jar; the files that a
    generator loads. All files that an archive of the folder would hold are taken where a module
    can't be parsed or reaches for modules or files by name, and for a program of the folder, as its
    text is not looked into. A changed comment is a change: only the engine knows what it means.

    Jobs that have no code in the folder are left out, and so are modules that are missing: the
    engine says what is wrong. Data that a job reads is no code.
    """
    code = _Folder(folder)
    found = {name: _made_of(job, code) for name, job in pipeline.jobs.items()}
    return {name: code.digest(paths) for name, paths in found.items() if paths}


def _made_of(job: Job, code: _Folder) -> set[Path]:
    """The files of a job and, where it is a query of several, of its members."""
    found: set[Path] = set()
    for one in (job, *job.members):
        found |= code.closure(_modules(one))
        found |= {path for name in _named_files(one) if (path := code.file(name)) is not None}
        if any(code.holds(word) for word in _words(one)):
            found |= code.whole
    return found


def _modules(job: Job) -> Iterator[str]:
    """The modules that a job names."""
    references = [
        job.python,
        job.map,
        job.state.code if job.state is not None else None,
        job.window.inverse if job.window is not None else None,
        job.generator.code if job.generator is not None else None,
        *(variant.code for variant in (job.variants or {}).values()),
    ]
    for reference in references:
        yield (reference or "").partition(":")[0]


def _named_files(job: Job) -> Iterator[str]:
    """The files that a job names and that are all there is to it."""
    if job.jar is not None:
        yield job.jar.path
    if job.generator is not None:
        yield from job.generator.inputs


def _words(job: Job) -> Iterator[str]:
    """What may name a program of the folder, or where one is made."""
    texts = [*(job.write.command if job.write is not None else ())]
    if job.process is not None:
        texts += [*job.process.command, job.process.directory or ""]
    for variant in (job.variants or {}).values():
        if variant.build is not None:
            texts += [variant.build.source or "", variant.build.output or ""]
    for text in texts:
        yield from (text, *_WORD.findall(text))


class _Folder:
    """A folder of code; each file is read once for all jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digests: dict[Path, str] = {}
        self._texts: dict[Path, _Text] = {}

    @cached_property
    def whole(self) -> frozenset[Path]:
        """All files that would be packed."""
        return frozenset(files(self._path))

    def file(self, name: str) -> Path | None:
        """Return a file by its path in the folder, if it is there."""
        path = self._inside(name)
        return path if path is not None and path.is_file() else None

    def holds(self, name: str) -> bool:
        """Return whether a word names a file, a folder or a module in the folder."""
        path = self._inside(name)
        return (path is not None and path.exists()) or self._module(name) is not None

    def closure(self, modules: Iterable[str]) -> set[Path]:
        """Return the files of the modules that are there, and of all that they may use."""
        waiting = [name for name in modules if self._module(name) is not None]
        found: set[Path] = set()
        known = True
        while waiting:
            for file in self._along(waiting.pop()):
                if file not in found:
                    found.add(file)
                    text = self._read(file)
                    known = known and text.known
                    waiting.extend(text.imports)
        return found if known else found | self.whole

    def digest(self, paths: Iterable[Path]) -> str:
        """Return what stands for the names and contents of files."""
        total = hashlib.sha256()
        for name, path in sorted((path.relative_to(self._path).as_posix(), path) for path in paths):
            if path not in self._digests:
                with path.open("rb") as file:
                    self._digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"{self._digests[path]} ".encode() + os.fsencode(name) + b"\0")
        return total.hexdigest()[:_LENGTH]

    def _inside(self, name: str) -> Path | None:
        """A path in the folder; None if it leads out of it."""
        plain = os.path.normpath(name)
        if not name or Path(plain).is_absolute() or Path(plain).parts[:1] == ("..",):
            return None
        return self._path / plain

    def _module(self, name: str) -> Path | None:
        """The file of a module, as the engine finds it: packages first."""
        parts = name.split(".")
        if not all(parts):
            return None
        path = "/".join(parts)
        return self.file(f"{path}/__init__.py") or self.file(f"{path}.py")

    def _along(self, name: str) -> list[Path]:
        """The files of a module and of the packages above it; what is missing is left out."""
        parts = name.split(".")
        names = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        return [file for part in names if (file := self._module(part)) is not None]

    def _read(self, file: Path) -> _Text:
        if file not in self._texts:
            package = file.parent.relative_to(self._path).parts
            self._texts[file] = _read(file.read_bytes(), package)
        return self._texts[file]


@dataclass(frozen=True, slots=True)
class _Text:
    """What the text of a module tells."""

    #: By names seen from the folder; not all of them are there.
    imports: frozenset[str] = frozenset()
    #: Whether that is all it may be made of.
    known: bool = False


def _read(source: bytes, package: tuple[str, ...]) -> _Text:
    """Read the text of a module that lies in a package."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Text()
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: max(len(package) - node.level + 1, 0)] if node.level else ()
            base = [*above, *([node.module] if node.module else [])]
            found.update(".".join([*base, alias.name]) for alias in node.names)
    return _Text(frozenset(found), all(_REACHING.isdisjoint(_names(node)) for node in nodes))


def _names(node: ast.AST) -> Iterable[str]:
    """The names that stand in a node itself."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return (name,)
        case ast.Constant(value=str(name)) if name.startswith("__"):
            return (name,)  # as in globals()["__file__"]
        case ast.alias(name=name) | ast.ImportFrom(module=str(name)):
            return name.split(".")
    return ()
