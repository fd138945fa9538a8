"""One second environment for all tests of plug-ins."""

from __future__ import annotations

import pytest

from tests.plugins.environment import Environment, environment


@pytest.fixture(scope="session")
def env(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return environment(tmp_path_factory.mktemp("second"))
