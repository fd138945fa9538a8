"""What a plug-in claims: each suite has named behaviours, and none is left out silently."""

# ruff: noqa: S101 - these are tests, though they are shipped

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar

import pytest

from millrace.errors import nearest

Test = TypeVar("Test", bound=Callable[..., object])
_MARK: Final = "__behaviour__"
_TEST: Final = "test_"


def behaviour(name: str) -> Callable[[Test], Test]:
    """Say which behaviour a test of a suite is about."""

    def marked(test: Test) -> Test:
        setattr(test, _MARK, name)
        return test

    return marked


class Conformance:
    """The base of all suites. A plug-in's test class says what it claims, and why not the rest.

    Only tests of what is claimed are collected. `test_declares` is there for each behaviour of its
    suites, with what is said of it: `pytest -v` shows the list. It fails for a behaviour of which
    nothing is said.
    """

    #: The behaviours that are tested.
    CLAIMS: ClassVar[frozenset[str]] = frozenset()
    #: The others, each with the reason why the plug-in does not have it.
    EXCUSES: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, *, suite: bool = False, **kwargs: Any) -> None:
        """Leave out what is not claimed; a `suite` says what there is to be claimed."""
        super().__init_subclass__(**kwargs)
        if suite:
            return
        tests = {name: about for name, about in _tests(cls).items() if about not in cls.CLAIMS}
        known = behaviours(cls)
        for name in (*cls.CLAIMS, *cls.EXCUSES):
            if name not in known:
                near = nearest(name, known)
                way = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
                raise TypeError(f"{cls.__name__}: no suite of it knows {name!r}; {way}")
        for name in tests:
            setattr(cls, name, None)
        cls.test_declares = _declares(cls, known)  # type: ignore[attr-defined]


def behaviours(suite: type[Conformance]) -> tuple[str, ...]:
    """Return the names of all behaviours of a suite, or of all suites of a test class."""
    return tuple(sorted(set(_tests(suite).values())))


def _tests(cls: type) -> dict[str, str]:
    """The tests of all suites that a class has, each with its behaviour."""
    found = {}
    for part in cls.__mro__:
        for name, test in vars(part).items():
            if name.startswith(_TEST) and hasattr(test, _MARK):
                found[name] = getattr(test, _MARK)
    return found


def said(cls: type[Conformance], name: str) -> str:
    """Return what a test class says of a behaviour; empty where it says nothing."""
    if name in cls.CLAIMS:
        return "claimed" if name not in cls.EXCUSES else ""
    reason = cls.EXCUSES.get(name, "").strip()
    return f"not claimed, {reason}" if reason else ""


def _declares(cls: type[Conformance], known: tuple[str, ...]) -> Callable[..., None]:
    """The test that something is said of each behaviour, with that in its id."""
    ids = [f"{name}: {said(cls, name) or 'nothing is said'}" for name in known]

    @pytest.mark.parametrize("name", known, ids=ids)
    def test_declares(self: Conformance, name: str) -> None:
        """A behaviour is claimed, or there is a reason why not."""
        assert said(type(self), name), (
            f"{name!r} must stand in CLAIMS, or in EXCUSES with a reason, and not in both"
        )

    return test_declares
