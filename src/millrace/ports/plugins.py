"""What is installed: engines and brokers by name. Ours come in by the same door as a stranger's.

A package offers a plug-in as an entry point of the group `millrace.engines` or `millrace.brokers`;
its name is the `kind` that people write in their files. It is loaded when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

from millrace.errors import OperationFailed, nearest

ENGINES: Final = "engines"
BROKERS: Final = "brokers"
_PREFIX: Final = "millrace."


@dataclass(frozen=True, slots=True)
class Registry:
    """Plug-ins by group and name, each with what loads it."""

    offers: Mapping[str, Mapping[str, Callable[[], Any]]] = field(default_factory=dict)

    def names(self, group: str) -> tuple[str, ...]:
        """Return the names of a group's plug-ins, in order."""
        return tuple(sorted(self.offers.get(group, {})))

    def load(self, group: str, name: str) -> Any:
        """Return a plug-in; raises, with the way out, where it is not there or can't be loaded."""
        load = self.offers.get(group, {}).get(name)
        if load is None:
            near = nearest(name, self.names(group))
            raise OperationFailed(
                "no-plugin",
                f"nothing that is installed here knows the kind {name!r} of {group}",
                f"did you mean {near!r}?" if near else "install the package that brings it here",
            )
        try:
            return load()
        except ImportError as error:
            raise OperationFailed(
                "plugin-broken",
                f"the plug-in {name!r} of {group} can't be loaded: {error}",
                f"install what it needs, for one of Millrace's own: pip install 'millrace[{name}]'",
            ) from error


@cache
def installed() -> Registry:
    """Return what is installed beside this Python; looked at once."""
    found = {
        group: {point.name: point.load for point in entry_points(group=f"{_PREFIX}{group}")}
        for group in (ENGINES, BROKERS)
    }
    return Registry(found)
