"""Jobs that go with all that they made need not read anything to its end."""

from __future__ import annotations

import pytest

from millrace.model import Pipeline
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.spec import load_text
from tests.plan.test_plan_properties import try_out
from tests.plan.test_planner import before, between, step

CHAIN = """
pipeline: p
sites: {n: {broker: kafka}}
streams: {a: {site: n}, b: {site: n}, c: {site: n}, other: {site: n}}
jobs:
  j: {site: n, from: a, to: b, sql: SELECT * FROM a}
  k: {site: n, from: b, to: c, %s}
  l: {site: n, from: a, to: other, sql: SELECT * FROM a}
"""
SQL, CODE = "sql: SELECT * FROM b", 'map: "m:f"'


def chain(*, what: str = SQL, without: tuple[str, ...] = (), streams: str = "") -> Pipeline:
    lines = [
        line
        for line in (CHAIN % what).splitlines()
        if not any(line.startswith(f"  {name}:") for name in without)
    ]
    text = "\n".join(lines)
    for name in streams:
        text = text.replace(f"{name}: {{site: n}}, ", "")
    if without and "c" not in streams:  # somebody has to use it
        text = text.replace("l: {site: n, from: a", "l: {site: n, from: c")
        text = text.replace("other, sql: SELECT * FROM a", "other, sql: SELECT * FROM c")
        text = text.replace("a: {site: n}, ", "")
    return load_text(text).required()


def test_a_chain_that_goes_whole_goes_at_once() -> None:
    found = between(chain(), new := chain(without=("j", "k"), streams="bc"))
    assert step(found, "delete job j").drains == step(found, "delete job k").drains == ()
    assert not before(found, "delete job j", "delete job k")
    try_out(chain(), new, seed=1, orders=20)


@pytest.mark.parametrize(
    ("what", "streams"), [(SQL, "b"), (CODE, "bc")], ids=["results stay", "code may do anything"]
)
def test_what_may_be_seen_is_read_to_its_end(what: str, streams: str) -> None:
    found = between(chain(what=what), chain(without=("j", "k"), streams=streams))
    assert step(found, "delete job j").drains == ("a",)
    assert step(found, "delete job k").drains == ("b",)
    assert before(found, "delete job j", "delete job k")


def test_streams_that_stay_though_nobody_wants_them_are_read_to_their_end() -> None:
    old, new = chain(), chain(without=("j", "k"), streams="bc")
    found = plan(new, Observed(old), {}, keeps=True)
    assert step(found, "delete job k").drains == ("b",)
