"""Maps in Spark's state as plain mappings."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any


class StoredMap(MutableMapping[Any, Any]):
    """A group's map in Spark's state, with one field in key and value."""

    def __init__(self, state: Any, value: type, key: type = int) -> None:
        self._state = state
        self._value = value
        self._key = key

    def __getitem__(self, key: Any) -> Any:
        found = self._state.getValue((key,))
        if found is None:
            raise KeyError(key)
        return self._value(found[0])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._state.updateValue((key,), (value,))

    def __delitem__(self, key: Any) -> None:
        self._state.removeKey((key,))

    def __iter__(self) -> Iterator[Any]:
        return iter([self._key(key[0]) for key in self._state.keys()])  # noqa: SIM118 - no mapping

    def __len__(self) -> int:
        return sum(1 for _ in self)
