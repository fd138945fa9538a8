"""Nothing of a suite is left out silently: what is not claimed has its reason, or a test fails."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.claims import Conformance, behaviour, behaviours
from millrace.testing.conformance.engine import EngineConformance
from millrace.testing.conformance.log import LogConformance

pytest_plugins = ["pytester"]
HEAD = """
from millrace.testing.conformance.claims import Conformance, behaviour

class Suite(Conformance, suite=True):
    @behaviour("walking")
    def test_it_walks(self) -> None:
        pass

    @behaviour("flying")
    def test_it_flies(self) -> None:
        raise AssertionError
"""


def outcomes(pytester: pytest.Pytester, body: str) -> tuple[dict[str, int], str]:
    pytester.makepyfile(HEAD + body)
    done = pytester.runpytest_inprocess("-v", "-p", "no:cacheprovider")
    return done.parseoutcomes(), done.stdout.str()


def test_only_what_is_claimed_is_tested_and_all_of_it_is_shown(pytester: pytest.Pytester) -> None:
    found, text = outcomes(
        pytester,
        """
class TestDog(Suite):
    CLAIMS = frozenset({"walking"})
    EXCUSES = {"flying": "it has no wings"}
""",
    )
    assert found == {"passed": 3}
    assert "test_it_walks" in text
    assert "test_it_flies" not in text
    assert "test_declares[walking: claimed]" in text
    assert "test_declares[flying: not claimed, it has no wings]" in text


@pytest.mark.parametrize(
    "said", ["", "EXCUSES = {'flying': ' '}", "CLAIMS = frozenset()\n    EXCUSES = {}"]
)
def test_what_nothing_is_said_of_fails(pytester: pytest.Pytester, said: str) -> None:
    found, text = outcomes(pytester, f"class TestDog(Suite):\n    {said or 'pass'}\n")
    assert found == {"failed": 2}
    assert "'flying' must stand in CLAIMS, or in EXCUSES with a reason" in text


def test_what_is_claimed_and_excused_fails(pytester: pytest.Pytester) -> None:
    found, _ = outcomes(
        pytester,
        """
class TestDog(Suite):
    CLAIMS = frozenset({"walking", "flying"})
    EXCUSES = {"walking": "lazy"}
""",
    )
    assert found == {"failed": 2, "passed": 2}


@pytest.mark.parametrize(
    ("claims", "excuses"), [({"wolking"}, {}), ({"walking"}, {"wolking": "no such thing"})]
)
def test_a_name_that_no_suite_knows_is_refused(
    claims: set[str], excuses: Mapping[str, str]
) -> None:
    class Suite(Conformance, suite=True):
        @behaviour("walking")
        def test_it_walks(self) -> None: ...

    with pytest.raises(TypeError, match="did you mean 'walking'"):
        type("TestDog", (Suite,), {"CLAIMS": frozenset(claims), "EXCUSES": excuses})


@pytest.mark.parametrize("suite", [BrokerConformance, LogConformance, EngineConformance])
def test_every_test_of_our_suites_has_a_behaviour_that_its_docstring_names(
    suite: type[Conformance],
) -> None:
    own = [name for name in vars(suite) if name.startswith("test_")]
    for name in own:
        assert hasattr(getattr(suite, name), "__behaviour__"), name
    for name in behaviours(suite):
        assert f"`{name}`" in (suite.__doc__ or ""), name
