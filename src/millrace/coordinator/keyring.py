"""The tokens of a coordinator, in its store: issued, recognized, taken back."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from millrace.coordinator.tenure import Tenure
from millrace.coordinator.tokens import Identity, Issued, Role, identified, issued
from millrace.errors import OperationFailed
from millrace.ports import Change, Document, Entry, EntryKind

_KIND = "token"
_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a new token shall be for."""

    name: str
    role: Role = Role.VIEWER
    pipelines: frozenset[str] | None = None
    site: str | None = None
    #: In seconds since the epoch; None is never.
    expires: float | None = None


@dataclass(slots=True)
class Keyring:
    """Who may do what; any thread may call."""

    tenure: Tenure
    clock: Callable[[], float]
    _known: dict[str, Document] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Read what the store has."""
        self._known = dict(self.tenure.store.load(_KIND))

    @property
    def tokens(self) -> Mapping[str, Document]:
        """What is kept of each token, by its id; who asks never waits for the store."""
        return self._known

    @property
    def sites(self) -> frozenset[str]:
        """The sites for whose agents there are tokens, or were: they are never served here."""
        return frozenset(
            document["site"] for document in self.tokens.values() if document["site"] is not None
        )

    def identify(self, text: str) -> Identity | None:
        """Return whose token it is; None for one that does not hold."""
        return identified(text, self.tokens, self.clock())

    def holds(self, identity: str) -> bool:
        """Whether the token of an id holds still."""
        known = self.tokens.get(identity)
        if known is None or known["revoked"]:
            return False
        return known["expires"] is None or self.clock() < known["expires"]

    def issue(
        self, wanted: Wanted, by: str, told: Callable[[str], None] = lambda _: None
    ) -> Issued:
        """Make a token; its text is known only to who gets it.

        `told` gets it before it holds: a crash in between leaves a text that is worth nothing, and
        no token that nobody knows.
        """
        identity = "".join(secrets.choice(_LETTERS) for _ in range(8))
        made = issued(
            (identity, secrets.token_urlsafe(32)),
            wanted.name,
            wanted.role,
            pipelines=wanted.pipelines,
            site=wanted.site,
            expires=wanted.expires,
        )
        told(made.text)
        detail = {"by": by, "name": wanted.name, "role": wanted.role.text, "site": wanted.site}
        self._keep(identity, made.document, f"token {identity}", {"issued": True, **detail})
        return made

    def revoke(self, identity: str, by: str) -> None:
        """Take a token back: it holds no more. Raises where there is none of that id."""
        known = self.tokens.get(identity)
        if known is None:
            raise OperationFailed(
                "no-token", f"there is no token {identity}", "millrace token list shows them"
            )
        self._keep(identity, {**known, "revoked": True}, f"token {identity}", {"revoked_by": by})

    def _keep(self, identity: str, document: Document, about: str, told: Document) -> None:
        entry = Entry(EntryKind.EVENT, about, told)
        with self._lock:
            self.tenure.commit(Change({(_KIND, identity): document}, entries=(entry,)))
            self._known = {**self._known, identity: document}
