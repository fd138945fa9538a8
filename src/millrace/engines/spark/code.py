"""The user's modules, each job's under names of its own.

Two jobs may bring different modules of one name. So a job's folder is imported below a private
package; imports inside the folder, absolute ones too, find their neighbours there. What is sent to
Spark's workers is pickled by value, so that they need none of it installed.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from millrace.engines.spark.lazy import nested_imports
from millrace.errors import OperationFailed, nearest

_LOADING = threading.RLock()


@dataclass(frozen=True, slots=True)
class Code:
    """A user's function, the private package of its modules, and those it imports as it runs."""

    function: Callable[..., Any]
    package: str
    lazy: Mapping[str, ModuleType]
    #: Another one when the text of a module is.
    version: str = ""


def load_code(reference: str, folder: Path, job: str) -> Code:
    """Return the function that `module:function` names, with its modules loaded afresh."""
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise OperationFailed("bad-reference", f"job {job}: {reference!r} is no module:function",
                              "write it as traffic:summary")  # fmt: skip
    package = _Package(folder, job)
    with _LOADING:
        module = package.load(module_name, reference)
    found = getattr(module, name, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value)]
        near = nearest(name, known)
        raise OperationFailed(
            "no-function",
            f"job {job}: module {module_name} has no function {name!r}",
            f"did you mean {near!r}?" if near else f"define it in {module_name}.py",
        )
    with _LOADING:
        lazy = package.lazy()
        version = package.version()
    return Code(found, package.name, lazy, version)


class _Package:
    """A private package over a folder; one for each job and each state of its files."""

    def __init__(self, folder: Path, job: str) -> None:
        self.folder = folder
        self.job = job
        digest = hashlib.sha256(f"{folder}:{job}".encode()).hexdigest()
        self.name = f"_millrace_{digest[:16]}"
        # A copy: Spark's threads import at any time.
        for loaded in list(sys.modules):
            if loaded.partition(".")[0] == self.name:
                del sys.modules[loaded]
        root = ModuleType(self.name)
        root.__path__ = [str(folder)]
        sys.modules[self.name] = root
        cloudpickle.register_pickle_by_value(root)  # type: ignore[no-untyped-call]

    def load(self, module: str, reference: str) -> ModuleType:
        """Import a module of the folder; errors name the user's own line."""
        if not self.has(module):
            top = [path.stem for path in self.folder.glob("*.py")]
            near = nearest(module, top)
            raise OperationFailed(
                "no-module",
                f"job {self.job}: there is no module {module!r} in {self.folder}",
                f"did you mean {near}:...?"
                if near
                else f"{reference} needs a file {module}.py there",
            )
        try:
            return self.module(module)
        except OperationFailed:
            raise
        except BaseException as error:
            raise OperationFailed(
                "import-failed",
                f"job {self.job}: importing {module} failed: {type(error).__name__}: {error}"
                f"{_place(error, self.folder)}",
                "correct the module; it is imported once when the job starts",
            ) from error

    def lazy(self) -> dict[str, ModuleType]:
        """Import what functions of the modules would import, and their packages; by plain name."""
        found: dict[str, ModuleType] = {}
        seen: set[str] = set()
        while fresh := [m for m in self._loaded() if m.__name__ not in seen]:
            for module in fresh:
                seen.add(module.__name__)
                own = (module.__package__ or "").removeprefix(self.name).removeprefix(".")
                source = Path(str(module.__file__)).read_text("utf-8")
                for name in nested_imports(source, own):
                    parts = name.split(".")
                    for count in range(1, len(parts) + 1):
                        part = ".".join(parts[:count])
                        if self.has(part):
                            with suppress(OperationFailed):  # it may never be imported
                                found[part] = self.load(part, part)
        return found

    def version(self) -> str:
        """Return what stands for the text of all modules that are loaded."""
        files = sorted(str(module.__file__) for module in self._loaded())
        texts = [Path(file).read_bytes() for file in files]
        return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]

    def _loaded(self) -> list[ModuleType]:
        loaded = sys.modules.copy()
        return [module for name, module in loaded.items() if name.startswith(f"{self.name}.")]

    def has(self, module: str) -> bool:
        """Whether the folder holds a module or package of a name."""
        path = self.folder.joinpath(*module.split("."))
        return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()

    def module(self, name: str) -> ModuleType:
        """Import a module of the folder, its packages first."""
        if not name:
            return sys.modules[self.name]
        parent, _, last = name.rpartition(".")
        above = self.module(parent)
        private = f"{self.name}.{name}"
        if private in sys.modules:
            return sys.modules[private]
        if not self.has(name):
            message = f"No module named {name!r}"
            raise ModuleNotFoundError(message, name=name)
        path = self.folder.joinpath(*name.split("."))
        package = (path / "__init__.py").is_file()
        file = path / "__init__.py" if package else path.with_suffix(".py")
        spec = importlib.util.spec_from_file_location(
            private, file, submodule_search_locations=[str(path)] if package else None
        )
        if spec is None or spec.loader is None:
            raise ImportError(name)
        module = importlib.util.module_from_spec(spec)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        sys.modules[private] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[private]
            raise
        setattr(above, last, module)
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the language's own names
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """The import statement of the folder's modules: neighbours first, then all others."""
        if level:
            own = str((globals or {}).get("__package__") or "")
            whole = importlib.util.resolve_name("." * level + name, own)
            name = whole.removeprefix(self.name).removeprefix(".")
        elif not self.has(name.partition(".")[0]):
            return builtins.__import__(name, globals, locals, fromlist or ())
        found = self.module(name)
        if not fromlist:
            return self.module(name.partition(".")[0])
        for item in fromlist:
            inner = f"{name}.{item}" if name else item
            if not hasattr(found, item) and self.has(inner):
                self.module(inner)
        return found


def _place(error: BaseException, folder: Path) -> str:
    """The last line of the user's own code in a traceback."""
    if isinstance(error, SyntaxError):
        return f" ({Path(error.filename or '').name}:{error.lineno})"
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder):
            place = f" ({file.relative_to(folder)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place
