"""Imports inside functions: what a user's code imports only when it runs, in Spark's workers.

Functions reach the workers by value, with the neighbours that their modules import. A neighbour
that is imported inside a function is not among these; so it is found beforehand and sent along.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
from collections.abc import Mapping, Sequence
from types import ModuleType

_import = builtins.__import__
#: In a worker: the modules of each private package, by the names that its code uses.
_known: dict[str, Mapping[str, ModuleType]] = {}


def nested_imports(source: str, package: str) -> set[str]:
    """Return the names that functions of a module import; `package` is where the module is."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found: set[str] = set()
    for outer in ast.walk(ast.parse(source)):
        if not isinstance(outer, functions):
            continue
        for node in ast.walk(outer):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(node, package)
                found.update({base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)})
    return found - {""}


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module of `from X import ...`, as seen from the user's folder."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*(part for part in above if part), *(node.module or "").split(".")]).strip(".")


def serve(package: str, modules: Mapping[str, ModuleType]) -> None:
    """Let import statements of a package's functions find its modules, in this process."""
    if not modules:
        return
    root = ModuleType(package)  # for `from . import neighbour`
    vars(root).update(modules)
    _known[package] = {**modules, "": root}
    builtins.__import__ = _hooked


def _hooked(
    name: str,
    globals: Mapping[str, object] | None = None,  # noqa: A002 - the language's own names
    locals: Mapping[str, object] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """The import statement: modules of the importing function's own package first."""
    whole = str((globals or {}).get("__name__") or "")
    package = whole.partition(".")[0]
    modules = _known.get(package)
    if modules is None:
        return _import(name, globals, locals, fromlist or (), level)
    plain = name
    if level:
        own = str((globals or {}).get("__package__") or package)
        plain = importlib.util.resolve_name("." * level + name, own).removeprefix(package)[1:]
    wanted = plain if fromlist else plain.partition(".")[0]
    if wanted in modules:
        return modules[wanted]
    return _import(name, globals, locals, fromlist or (), level)
