"""The function that a job names, from its folder of code."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from millrace.errors import OperationFailed, nearest

#: A record as columns in; none, one or several out.
Function = Callable[[dict[str, Any]], Mapping[str, Any] | list[Mapping[str, Any]] | None]
_NUMBERS = itertools.count()


def function_of(job: str, named: str, code: Path) -> Function:
    """Return the function that `module:function` names; raises with the way out.

    The module gets a name of its own: two jobs may bring different ones of the same name.
    """
    module, _, name = named.partition(":")
    file = code.joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        raise _wrong(job, f"there is no module {module}", f"put {file.name} beside the file")
    spec = importlib.util.spec_from_file_location(f"_millrace_job_{next(_NUMBERS)}", file)
    if spec is None or spec.loader is None:
        raise _wrong(job, f"{file} is no module", "name a file that ends with .py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    try:
        spec.loader.exec_module(loaded)
    except Exception as error:
        raise _wrong(job, f"{module} can't be loaded: {error}", f"correct {file.name}") from error
    found: Function | None = getattr(loaded, name, None)
    if not callable(found):
        near = nearest(name, [it for it in vars(loaded) if not it.startswith("_")])
        way = f"did you mean {near!r}?" if near else f"define it in {file.name}"
        raise _wrong(job, f"{module} has no function {name!r}", way)
    return found


def _wrong(job: str, message: str, hint: str) -> OperationFailed:
    return OperationFailed("bad-code", f"job {job}: {message}", hint)
