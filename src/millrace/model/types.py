"""The types that declared fields may have beside the plain ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from millrace.model.impact import Impact, setting

#: A name of a thing: safe in a file, a path, a topic and a REST address.
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,199}")
NAME_EXPECTED: Final = "letters, digits and . _ - @ (200 at most, not starting with . - @)"


@dataclass(frozen=True, slots=True)
class Refers:
    """Marks a text as the name of a declared thing of this section."""

    section: str


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Marks the least value of a number, and the greatest where it has one."""

    value: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Plugs:
    """Marks a text as a kind of engine or broker: one of ours, or one that a package brings."""

    #: The group of plug-ins that may bring it.
    group: str
    ours: type[StrEnum]


SiteName = Annotated[str, Refers("sites")]
PilotName = Annotated[str, Refers("pilots")]
StreamName = Annotated[str, Refers("streams")]
GroupName = Annotated[str, Refers("groups")]
Count = Annotated[int, AtLeast(1)]
Natural = Annotated[int, AtLeast(0)]


@dataclass(frozen=True)
class Secret:
    """A secret, by reference only: where it is read when it is needed."""

    SHORT: ClassVar[str | None] = None

    secret: str = setting(
        "env:NAME, or file:PATH",
        change=Impact.RESTART,
        example="env:KAFKA_PASSWORD",
    )


#: A setting of a client or an engine, as its own documentation names it.
Option = str | int | float | bool | Secret
Options = Mapping[str, Option]

#: Words that mark a setting which must not be written down.
SECRET_WORDS: Final = re.compile(
    r"password|passwd|secret|token|credential|jaas|private.?key", re.IGNORECASE
)
#: The same for numbers: `token.max.age: 5` is none, `password: 12345` is.
SECRET_NUMBERS: Final = re.compile(r"password|passwd|secret$", re.IGNORECASE)
#: user:password@ in an address, with or without its scheme.
ADDRESS_SECRET: Final = re.compile(
    r"(?:[a-z+]{1,20}://)?[^/@\s:]{0,200}:[^/@\s]{1,200}@", re.IGNORECASE
)
