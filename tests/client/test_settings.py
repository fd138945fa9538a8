"""Where the client finds the coordinator, and whom it trusts with a token."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.client import Client, Settings
from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.machine.address import Address, address_file, token_file
from tests.client.running import coordinator
from tests.machine.test_web import certificate as made_certificate

TOKEN, OTHER = ("mr_abcdefgh_" + letter * 43 for letter in "st")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with a coordinator's address and token."""
    for name in ("MILLRACE_SERVER", "MILLRACE_TOKEN_FILE", "MILLRACE_CERTIFICATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "none"))
    home = tmp_path / "home"
    folders = Folders.of(home)
    token_file(folders).parent.mkdir(parents=True)
    address_file(folders).write_text(Address("http://here:1", Path("/c.pem")).document())
    token_file(folders).write_text(f"{TOKEN}\n")
    (tmp_path / "other").write_text(OTHER)
    return home


def test_a_home_tells_all(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Settings("http://here:1", TOKEN, Path("/c.pem"))
    assert Settings.local(home) == Settings.of(home=home) == expected
    monkeypatch.setenv("MILLRACE_HOME", str(home))
    assert Settings.of() == expected
    assert TOKEN not in repr(expected)


def test_options_come_before_the_environment(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    around = {"MILLRACE_SERVER": "http://env:2", "MILLRACE_TOKEN_FILE": str(other)}
    assert Settings.of(environment=around) == Settings("http://env:2", OTHER)
    assert Settings.of("http://x:3/", environment=around) == Settings("http://x:3", OTHER)
    assert Settings.of(home=home, environment=around).url == "http://here:1"
    around["MILLRACE_CERTIFICATE"] = "/e.pem"
    assert Settings.of(environment=around).certificate == Path("/e.pem")
    assert Settings.of(None, other, None, home) == Settings("http://here:1", OTHER, Path("/c.pem"))


def test_the_token_of_a_home_goes_to_nobody_else(home: Path) -> None:
    assert Settings.of("http://here:1/", home=home).token == TOKEN
    with pytest.raises(OperationFailed, match="no token for http://elsewhere") as caught:
        Settings.of("http://elsewhere", home=home)
    assert "--token-file" in caught.value.hint


def test_a_site_s_agent_takes_no_token_of_a_home(home: Path, tmp_path: Path) -> None:
    other, around = tmp_path / "other", {"MILLRACE_CERTIFICATE": "/e.pem"}
    with pytest.raises(OperationFailed, match="no token for http://here:1") as caught:
        Settings.of_site("http://here:1", environment=around)
    assert "MILLRACE_TOKEN_FILE" in caught.value.hint
    expected = Settings("http://here:1", OTHER, Path("/e.pem"))
    assert Settings.of_site("http://here:1", other, environment=around) == expected
    around["MILLRACE_TOKEN_FILE"] = str(other)
    assert Settings.of_site("http://here:1", environment=around) == expected
    (tmp_path / "mine").write_text(TOKEN)
    given = Settings.of_site("http://here:1", tmp_path / "mine", Path("/c.pem"), around)
    assert given == Settings("http://here:1", TOKEN, Path("/c.pem"))


def test_what_is_missing_or_damaged_is_said(home: Path, tmp_path: Path) -> None:
    with pytest.raises(OperationFailed, match="no coordinator was started") as caught:
        Settings.of(home=tmp_path / "empty")
    assert (caught.value.code, "millrace up" in caught.value.hint) == ("not-up", True)
    with pytest.raises(OperationFailed, match="can't be read: No such file"):
        Settings.of("http://x", tmp_path / "gone")
    for content in (b"", b"\xff\xfe", b"two words", "é".encode()):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(OperationFailed, match="holds no token"):
            Settings.of("http://x", tmp_path / "bad")
    for text in ("", "{}", "[]", '{"url": 1}'):
        address_file(Folders.of(home)).write_text(text)
        with pytest.raises(OperationFailed, match="damaged"):
            Settings.of(home=home)


@pytest.mark.needs("openssl")
def test_a_coordinator_with_a_certificate_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_certificate(tmp_path, "own")
    with coordinator(tmp_path / "h", tmp_path / "own.pem", tmp_path / "own.key") as house:
        state = house.home.folders.state
        with Client.local(state) as client:
            assert client.settings.url.startswith("https:")
            assert client.whoami()["role"] == "admin"
        url = client.settings.url
        monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "none"))
        with (
            Client.of(url, house.home.token) as client,
            pytest.raises(OperationFailed, match="not trusted"),
        ):
            client.whoami()
        with Client.of(url, house.home.token, tmp_path / "own.pem") as client:
            assert client.whoami()["name"] == "first"
    assert os.environ["MILLRACE_HOME"]
