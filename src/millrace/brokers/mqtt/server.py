"""A Mosquitto of our own: one process on loopback, with a password, its state kept between starts.

Mosquitto writes its state (sessions, what waits for them, retained messages) as a whole, now and
then, and when it is asked to end. What it acknowledged after the last time, and has not handed on,
is gone if it is killed. It can count changes or seconds, not both, so we ask it each second beside
its counting. To write after each change costs nearly all of its speed, and still loses one: it
acknowledges first.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.machine import Child, end_session, free_ports, leashed
from millrace.machine.process import started_at
from millrace.machine.secrets import write_private

GRACE_SECONDS = 6.0
#: It writes its state after so many changes, and after so many seconds if it heard anything.
AUTOSAVE = 100
SAVE_SECONDS = 1.0
USER = "millrace"
_TOOL_SECONDS = 30.0
#: Where Debian puts programs that only a service runs.
_SERVICES = os.pathsep.join(("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"))
_LISTENING = "0A"
#: A state of so many bytes is written in about a tenth of a second.
_LARGE = 16_000_000
#: How often a password is hashed; it is checked at each connection.
_ROUNDS = 1_000


@dataclass(frozen=True, slots=True)
class Identity:
    """What a broker keeps between starts, and its last process."""

    port: int
    tls: bool = False
    username: str = USER
    pid: int = 0
    started: float = 0.0


@dataclass(slots=True)
class Server:
    """The process and its folder: identity, settings, secrets, state, log."""

    place: Path
    tls: bool = False
    #: Who may come in; without them a user of our own with a password made at the first start.
    username: str = USER
    given_password: str | None = None
    autosave: int = AUTOSAVE
    child: Child | None = None

    @property
    def identity(self) -> Identity | None:
        """What is known of it, if it was ever started."""
        return read_identity(self.place)

    @property
    def log(self) -> Path:
        """What the broker says."""
        return self.place / "mosquitto.log"

    @property
    def alive(self) -> bool:
        """Whether the process that we started runs."""
        return self.child is not None and self.child.alive

    @property
    def password(self) -> str:
        """What clients show; made once."""
        if self.given_password is not None:
            return self.given_password
        file = self.place / "password"
        if not file.exists():
            write_private(file, secrets.token_urlsafe(32))
        return file.read_text("utf-8")

    @property
    def certificate(self) -> Path:
        """What clients trust, if it speaks TLS."""
        return self.place / "server.crt"

    def launch(self) -> Identity:
        """Start the process and return at once; a predecessor of an ended agent is ended first."""
        program = _program("mosquitto")
        self.place.mkdir(parents=True, exist_ok=True)
        identity = self.identity
        if identity is not None and is_running(identity):
            end_session(identity.pid)
        [port] = free_ports(1, () if identity is None else (identity.port,))
        self._write_users()
        if self.tls:
            self._certify()
        self._write_configuration(port)
        command = [program, "-c", str(self.place / "mosquitto.conf")]
        self.child = Child.start(leashed(command), self.log)
        pid = self.child.pid
        return self._remember(Identity(port, self.tls, self.username, pid, started_at(pid)))

    def end(self) -> None:
        """End the process; it writes its state first."""
        if self.child is not None:
            self.child.end(GRACE_SECONDS)
            self.child = None

    def save_each_second(self) -> None:
        """Ask it to write its state from now on; it must serve, or the question would end it."""
        if self.child is not None:
            told = (self.child, self.place / "data" / "mosquitto.db")
            threading.Thread(target=_save_each_second, args=told, daemon=True).start()

    def listens(self) -> bool:
        """Whether our own process has the port: a stranger may have been faster."""
        identity = self.identity
        return identity is not None and self.alive and listens(identity.pid, identity.port)

    def _remember(self, identity: Identity) -> Identity:
        fresh = self.place / "broker.json.new"
        fresh.write_text(json.dumps(asdict(identity)), encoding="utf-8")
        fresh.replace(self.place / "broker.json")
        return identity

    def _write_users(self) -> None:
        """Write who may come in, as `mosquitto_passwd` does, which can't take every password."""
        if set(self.username) & set(":\r\n") or not self.username:
            raise OperationFailed(
                "bad-setting",
                f"username can't be {self.username!r}",
                "use a name without colons and line breaks",
            )
        salt = secrets.token_bytes(12)
        hashed = hashlib.pbkdf2_hmac("sha512", self.password.encode(), salt, _ROUNDS)
        coded = [base64.b64encode(part).decode("ascii") for part in (salt, hashed)]
        entry = f"{self.username}:$7${_ROUNDS}${coded[0]}${coded[1]}\n"
        write_private(self.place / "users", entry)

    def _write_configuration(self, port: int) -> None:
        data = self.place / "data"
        data.mkdir(mode=0o700, exist_ok=True)
        settings = [
            ("per_listener_settings", "false"),
            ("listener", f"{port} 127.0.0.1"),
            ("allow_anonymous", "false"),
            ("password_file", str(self.place / "users")),
            ("persistence", "true"),
            ("persistence_location", f"{data}/"),
            ("autosave_on_changes", "true"),
            ("autosave_interval", str(self.autosave)),
            ("max_queued_messages", "0"),
            ("max_queued_bytes", "0"),
            ("max_inflight_messages", "0"),
            ("max_inflight_bytes", "0"),
            ("set_tcp_nodelay", "true"),
            ("sys_interval", "0"),
            ("connection_messages", "false"),
            ("log_dest", "stderr"),
            ("log_type", "error"),
            ("log_type", "warning"),
            ("log_type", "notice"),
        ]
        if self.tls:
            settings += [
                ("certfile", str(self.certificate)),
                ("keyfile", str(self.place / "server.key")),
                ("tls_version", "tlsv1.2"),
            ]
        if os.geteuid() == 0:
            settings.append(("user", "root"))  # else it becomes one that can't read its files
        text = "".join(f"{name} {value}\n" for name, value in settings)
        (self.place / "mosquitto.conf").write_text(text, encoding="utf-8")

    def _certify(self) -> None:
        """Make a key and a certificate for this machine, once; who trusts it trusts only it."""
        if self.certificate.exists():
            return
        key = self.place / "server.key"
        write_private(key, "")
        fresh = self.place / "server.crt.new"
        command = [_program("openssl"), "req", "-x509", "-newkey", "ec"]
        command += ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"]
        command += ["-subj", "/CN=millrace-mosquitto", "-keyout", str(key), "-out", str(fresh)]
        command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
        _run(command, "make a certificate")
        fresh.replace(self.certificate)


def read_identity(place: Path) -> Identity | None:
    """Return what a folder tells of the broker that keeps its state there, if there is one."""
    try:
        return Identity(**json.loads((place / "broker.json").read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # never started, or cut off
        return None


def is_running(identity: Identity) -> bool:
    """Whether the process that was started last still runs."""
    started = started_at(identity.pid)
    return started != 0.0 and abs(started - identity.started) < 1


def listens(pid: int, port: int) -> bool:
    """Whether a process has the listener of a port, as the system knows it."""
    sockets = set()
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
            sockets.add(f"socket:[{fields[9]}]")
    with suppress(OSError):
        for held in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(held.readlink()) in sockets:
                    return True
    return False


def _save_each_second(child: Child, state: Path) -> None:
    """Ask a process to write its state; less often where that is large."""
    heard = 0
    while child.alive:
        size = state.stat().st_size if state.exists() else 0
        time.sleep(SAVE_SECONDS * (1 + size // _LARGE))
        with suppress(OSError):
            now = int(Path(f"/proc/{child.pid}/io").read_text("ascii").split()[1])
            if now != heard:
                child.process.send_signal(signal.SIGUSR1)
            heard = now


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=_SERVICES)
    if found is None:
        raise OperationFailed(
            "no-program",
            f"{name} is not installed, and a broker of our own needs it",
            f"apt-get install {name}; or give the broker an address",
        )
    return found


def _run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system, no shell
            command, check=False, capture_output=True, text=True, timeout=_TOOL_SECONDS
        )
        said = "" if done.returncode == 0 else done.stderr.strip() or f"code {done.returncode}"
    except subprocess.TimeoutExpired:
        said = "it does not end"
    if said:
        raise OperationFailed("broker-not-prepared", f"{command[0]} could not {what}: {said}")
