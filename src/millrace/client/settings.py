"""Where the coordinator is and who asks: by options, by the environment, or by a home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.machine import Folders
from millrace.machine.address import Address, read_address, read_token, token_file

SERVER, TOKEN_FILE, CERTIFICATE = "MILLRACE_SERVER", "MILLRACE_TOKEN_FILE", "MILLRACE_CERTIFICATE"


@dataclass(frozen=True, slots=True)
class Settings:
    """A coordinator's address, the token, and the only certificate to trust, if one is named."""

    url: str
    token: str = field(repr=False)
    certificate: Path | None = None

    @classmethod
    def local(cls, home: Path | None = None) -> Settings:
        """Return those of the coordinator on this machine, with the token of who started it."""
        folders = Folders.of(home)
        address = read_address(folders)
        return cls(address.url, read_token(token_file(folders)), address.certificate)

    @classmethod
    def of(
        cls,
        server: str | None = None,
        token: Path | None = None,
        certificate: Path | None = None,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Settings:
        """Return them as given; what is not is taken from MILLRACE_SERVER, MILLRACE_TOKEN_FILE and
        MILLRACE_CERTIFICATE, else from the coordinator of the home. A home that is named comes
        before the environment. The token of a home is given to nobody but its coordinator.
        """  # noqa: D205 - one thought
        if home is None:
            around = _around(environment)
            server = server or around.get(SERVER) or None
            token = token or _path(around.get(TOKEN_FILE))
            certificate = certificate or _path(around.get(CERTIFICATE))
        folders = Folders.of(home)
        address = read_address(folders) if server is None else _known(folders, server)
        token = token or _token_of(folders, address)
        return cls(address.url, read_token(token), certificate or address.certificate)

    @classmethod
    def of_site(
        cls,
        server: str,
        token: Path | None = None,
        certificate: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Settings:
        """Return those of the agent of a site as given, else by MILLRACE_TOKEN_FILE and
        MILLRACE_CERTIFICATE. No home is looked at: the token of a home is not that of a site.
        """  # noqa: D205 - one thought
        around = _around(environment)
        token = token or _path(around.get(TOKEN_FILE))
        if token is None:
            raise _no_token(server)
        return cls(server, read_token(token), certificate or _path(around.get(CERTIFICATE)))


def _around(environment: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environment is None else environment


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _known(folders: Folders, server: str) -> Address:
    """An address, with the certificate that the home knows for it."""
    url = server.rstrip("/")
    try:
        found = read_address(folders)
    except OperationFailed:
        return Address(url)
    return found if found.url.rstrip("/") == url else Address(url)


def _token_of(folders: Folders, address: Address) -> Path:
    """The file of the home's token, for the home's coordinator."""
    try:
        here = read_address(folders)
    except OperationFailed:
        here = None
    if here is None or here.url.rstrip("/") != address.url.rstrip("/"):
        raise _no_token(address.url)
    return token_file(folders)


def _no_token(url: str) -> OperationFailed:
    return OperationFailed(
        "no-token",
        f"there is no token for {url.rpartition('@')[2]}",
        f"name the file with your token: --token-file FILE, or {TOKEN_FILE}",
    )
