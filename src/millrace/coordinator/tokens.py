"""Who may do what: tokens with a role, kept only as sums.

A token is `mr_ID_SECRET`. The secret has 256 bits from the system's generator, so a plain sum of it
tells nothing; it is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from millrace.errors import OperationFailed
from millrace.ports import Document

_TOKEN = re.compile(r"mr_([a-z0-9]{8})_([A-Za-z0-9_-]{43})")


class Role(IntEnum):
    """What a token may do; a higher one may do all that a lower one may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def text(self) -> str:
        """The word that users see."""
        return self.name.lower()

    @classmethod
    def of(cls, text: str) -> Role:
        """Return the role of a word; raises for another word."""
        for role in cls:
            if role.text == text:
                return role
        known = ", ".join(role.text for role in cls)
        raise OperationFailed("no-role", f"{text!r} is no role", f"roles are {known}")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks: the token's id and name, its role, and the pipelines or the site it is for."""

    id: str
    name: str
    role: Role
    #: None is all of them.
    pipelines: frozenset[str] | None = None
    #: The site whose agent it is for; such a token does nothing else.
    site: str | None = None

    def may(self, role: Role, pipeline: str | None = None) -> bool:
        """Whether it may do what asks for a role; what is about no pipeline is about all."""
        if self.site is not None or self.role < role:
            return False
        return self.pipelines is None or pipeline in self.pipelines


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token: what its owner gets, once, and what is kept of it."""

    text: str
    id: str
    document: Document


def issued(
    entropy: tuple[str, str],
    name: str,
    role: Role,
    *,
    pipelines: frozenset[str] | None = None,
    site: str | None = None,
    expires: float | None = None,
) -> Issued:
    """Return a new token; `entropy` is its id and its secret, from the system's generator."""
    identity, secret = entropy
    text = f"mr_{identity}_{secret}"
    if not _TOKEN.fullmatch(text):
        message = f"no token can be made of {len(identity)} and {len(secret)} characters"
        raise OperationFailed("bad-entropy", message)
    document = {
        "name": name,
        "role": role.text,
        "sum": _sum(secret),
        "pipelines": sorted(pipelines) if pipelines is not None else None,
        "site": site,
        "expires": expires,
        "revoked": False,
    }
    return Issued(text, identity, document)


def identified(text: str, documents: Mapping[str, Document], now: float) -> Identity | None:
    """Return whose token it is; None for one that is unknown, over or taken back.

    How long it takes tells nothing about a secret.
    """
    match = _TOKEN.fullmatch(text)
    known = documents.get(match[1]) if match is not None else None
    expected = known["sum"] if known is not None else _sum("")
    same = hmac.compare_digest(_sum(match[2] if match is not None else text), expected)
    if match is None or known is None or not same or known["revoked"]:
        return None
    if known["expires"] is not None and now >= known["expires"]:
        return None
    return _identity(match[1], known)


def _identity(token: str, document: Mapping[str, Any]) -> Identity:
    pipelines = document["pipelines"]
    return Identity(
        token,
        document["name"],
        Role.of(document["role"]),
        frozenset(pipelines) if pipelines is not None else None,
        document["site"],
    )


def _sum(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
