"""What the guide for authors of plug-ins shows is true: its snippets are run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from millrace import ports
from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.claims import Conformance, behaviours
from millrace.testing.conformance.engine import EngineConformance
from millrace.testing.conformance.log import LogConformance
from tests.plugins.environment import PLUGIN, ROOT, Environment

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.xdist_group("plugins"), pytest.mark.timeout(300)]
GUIDE = (ROOT / "docs" / "plugins.md").read_text("utf-8")


def snippets(language: str, text: str = GUIDE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_smallest_plugin_passes_what_it_claims(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    module, test = snippets("python")
    pytester.makepyfile(idle=module, test_idle=test)
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-W", "error")
    found = done.parseoutcomes()
    assert found.keys() == {"passed"}
    assert found["passed"] > len(behaviours(EngineConformance))


def test_its_package_offers_the_plugin() -> None:
    (text,) = snippets("toml")
    project = tomllib.loads(text)["project"]
    example = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"millrace.engines": {"idle": "idle:PLUGIN"}}
    assert set(example["entry-points"]) == {"millrace.brokers", "millrace.engines"}


@pytest.mark.parametrize("text", [GUIDE, (PLUGIN / "README.md").read_text("utf-8")])
def test_its_file_is_valid_where_the_example_is_installed(
    env: Environment, tmp_path: Path, text: str
) -> None:
    (file,) = snippets("yaml", text)
    (tmp_path / "shop.yaml").write_text(file)
    done = env.run("millrace", "validate", str(tmp_path / "shop.yaml"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("suite", [BrokerConformance, LogConformance, EngineConformance])
def test_all_behaviours_are_listed(suite: type[Conformance]) -> None:
    (row,) = re.findall(rf"^\| `{suite.__name__}` \| (.*) \|$", GUIDE, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", row)) == list(behaviours(suite))


def test_what_it_names_is_there() -> None:
    """Methods and names of the ports, as the guide writes them."""
    for name in re.findall(r"`((?:Broker|Log|Engine)(?:Plugin|Order)?)(?:\.(\w+))?", GUIDE):
        found = getattr(ports, name[0])
        members = {*dir(found), *found.__annotations__}
        assert not name[1] or name[1] in members, name
