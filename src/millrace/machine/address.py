"""Where a coordinator is, who may speak to it, and who is believed to be it.

A coordinator writes its address and its first token into its folder; commands and agents on the
same machine read them there.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from millrace.errors import OperationFailed
from millrace.machine.folders import Folders


@dataclass(frozen=True, slots=True)
class Address:
    """A coordinator's address, and the only certificate to trust there, if one is named."""

    url: str
    certificate: Path | None = None

    def document(self) -> str:
        """Return the text of its file."""
        certificate = str(self.certificate) if self.certificate else None
        return json.dumps({"url": self.url, "certificate": certificate})


def coordinator_folder(folders: Folders) -> Path:
    """Return where a coordinator keeps its things."""
    return folders.state / "coordinator"


def address_file(folders: Folders) -> Path:
    """Return the file with a coordinator's address."""
    return coordinator_folder(folders) / "address.json"


def token_file(folders: Folders) -> Path:
    """Return the file with the token of who started the coordinator first."""
    return coordinator_folder(folders) / "token"


def read_address(folders: Folders) -> Address:
    """Return where the coordinator of a home is; raises where none was started."""
    path = address_file(folders)
    try:
        document = json.loads(path.read_text("utf-8"))
        url, certificate = str(document["url"]), document["certificate"]
    except FileNotFoundError:
        raise OperationFailed(
            "not-up",
            "no coordinator was started here",
            "start one: millrace up; or name one: --server URL --token-file FILE",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperationFailed(
            "not-up",
            f"{path} can't be read: {getattr(error, 'strerror', None) or 'it is damaged'}",
            "start the coordinator again: millrace up; or name one: --server URL --token-file FILE",
        ) from None
    return Address(url, Path(certificate) if certificate else None)


def read_token(path: Path) -> str:
    """Return the token of a file; raises without a word of what is in it."""
    try:
        text = path.read_text("utf-8").strip()
    except OSError as error:
        raise OperationFailed(
            "no-token",
            f"the token {path} can't be read: {error.strerror}",
            "name the file with your token: --token-file FILE, or MILLRACE_TOKEN_FILE",
        ) from None
    except UnicodeDecodeError:  # the error holds the bytes
        text = ""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise OperationFailed(
            "no-token",
            f"{path} holds no token",
            "millrace token create --out FILE makes one",
        )
    return text


def checked_url(url: str) -> str:
    """Return an address without a slash at its end; raises for what is none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in parts.netloc or parts.query or parts.fragment:
        raise OperationFailed(
            "bad-address",
            f"{url.rpartition('@')[2]!r} is no address of a coordinator",
            "it looks like https://host:8443",
        )
    return url.rstrip("/")


def trusted(url: str, certificate: Path | None) -> ssl.SSLContext:
    """Return who is believed: those who the given file names, or else those of the system."""
    if url.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # of no use, and cheaper than any other
    try:
        return ssl.create_default_context(cafile=str(certificate) if certificate else None)
    except OSError as error:  # ssl.SSLError is one, too
        raise OperationFailed(
            "bad-certificate",
            f"{certificate} can't be read as a certificate: {error.strerror or error}",
            "give a file in PEM: --certificate FILE, or MILLRACE_CERTIFICATE",
        ) from None
