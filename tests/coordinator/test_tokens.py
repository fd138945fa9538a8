"""Tokens: who is let in, as what, and what is kept of a secret."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.coordinator.tokens import Identity, Issued, Role, identified, issued
from millrace.errors import OperationFailed

NOW = 1_790_000_000.0


def token(role: Role = Role.OPERATOR, **more: Any) -> Issued:
    return issued((secrets.token_hex(4), secrets.token_urlsafe(32)), "me", role, **more)


def test_a_token_is_known_by_its_secret_and_nothing_else() -> None:
    mine, other = token(), token()
    known = {mine.id: mine.document, other.id: other.document}
    assert identified(mine.text, known, NOW) == Identity(mine.id, "me", Role.OPERATOR)
    mixed = f"mr_{mine.id}_{other.text.rpartition('_')[2]}"
    assert identified(f"mr_{mine.id}_{other.text[12:]}", known, NOW) is None
    assert identified(mixed, known, NOW) is None
    assert identified(mine.text, {}, NOW) is None
    assert mine.text[12:] not in json.dumps(known)


@given(st.text(max_size=80))
def test_no_other_text_is_a_token(text: str) -> None:
    mine = token()
    assert identified(text, {mine.id: mine.document, text: mine.document}, NOW) is None


def test_a_token_is_over_at_its_time_and_when_it_is_taken_back() -> None:
    mine = token(expires=NOW)
    known = {mine.id: mine.document}
    assert identified(mine.text, known, NOW - 1) is not None
    assert identified(mine.text, known, NOW) is None
    back = token()
    assert identified(back.text, {back.id: {**back.document, "revoked": True}}, NOW) is None


@pytest.mark.parametrize(
    ("role", "may"),
    [(Role.VIEWER, {1}), (Role.OPERATOR, {1, 2}), (Role.ADMIN, {1, 2, 3})],
)
def test_a_role_may_what_lower_ones_may(role: Role, may: set[int]) -> None:
    mine = token(role)
    identity = identified(mine.text, {mine.id: mine.document}, NOW)
    assert identity is not None
    assert {asked for asked in Role if identity.may(asked)} == may
    assert {asked for asked in Role if identity.may(asked, "roads")} == may


def test_a_token_for_some_pipelines_does_nothing_else() -> None:
    mine = token(Role.ADMIN, pipelines=frozenset({"roads"}))
    identity = identified(mine.text, {mine.id: mine.document}, NOW)
    assert identity is not None
    assert identity.may(Role.ADMIN, "roads")
    assert not identity.may(Role.VIEWER, "rails")
    assert not identity.may(Role.VIEWER)


def test_an_agents_token_does_nothing_else() -> None:
    mine = token(Role.ADMIN, site="north")
    identity = identified(mine.text, {mine.id: mine.document}, NOW)
    assert identity is not None
    assert identity.site == "north"
    assert not identity.may(Role.VIEWER)


def test_other_words_are_no_roles() -> None:
    assert Role.of("viewer") is Role.VIEWER
    with pytest.raises(OperationFailed, match="viewer, operator, admin"):
        Role.of("root")
