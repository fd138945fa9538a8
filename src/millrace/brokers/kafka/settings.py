"""Settings of Kafka's clients: an allow-list, and the two names that each has.

Files use librdkafka's names, which are the plainer ones. What can name a class, a file of the
broker's choice or an address to call (`sasl.jaas.config`, `*.endpoint.url`, `plugin.library.paths`)
is not on the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from millrace.errors import OperationFailed, nearest

#: Settings that both clients call the same.
_SAME: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "security.protocol",
        "sasl.mechanism",
        "request.timeout.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
#: Settings that librdkafka and Java name differently, or that Java builds from several.
_TRANSLATED: Final = frozenset(
    {
        "sasl.username",
        "sasl.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
    }
)
ALLOWED: Final = _SAME | _TRANSLATED
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def checked(settings: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the settings; raises for one that is not on the list, with the near name."""
    for name in settings:
        if name not in ALLOWED:
            near = nearest(name, ALLOWED)
            raise OperationFailed(
                "setting-not-allowed",
                f"{where}: {name!r} is not a setting of Kafka's clients that may be set",
                f"did you mean {near!r}?" if near else f"known are {', '.join(sorted(ALLOWED))}",
            )
    named = {"sasl.mechanism": "PLAIN"} if "sasl.username" in settings else {}
    full = {**named, **settings}
    mechanism = full.get("sasl.mechanism")
    if mechanism is not None and mechanism not in _MODULES:
        raise OperationFailed(
            "setting-not-allowed",
            f"{where}: sasl.mechanism {mechanism!r} is not known",
            f"use one of {', '.join(_MODULES)}",
        )
    return full


def for_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by the names of Java's client."""
    java = {name: value for name, value in settings.items() if name in _SAME}
    if "sasl.username" in settings:
        module = _MODULES[settings.get("sasl.mechanism", "PLAIN")]
        user, password = settings["sasl.username"], settings.get("sasl.password", "")
        java["sasl.jaas.config"] = (
            f"{module} required username={_quoted(user)} password={_quoted(password)};"
        )
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if "ssl.ca.location" in settings:
        java["ssl.truststore.type"] = "PEM"
        java["ssl.truststore.location"] = settings["ssl.ca.location"]
    java.update(_own_certificate(settings))
    return java


def _own_certificate(settings: Mapping[str, str]) -> dict[str, str]:
    """Who we are. Java wants certificate and key in one file, or their texts.

    Two files are read by Java itself when it needs them, so that no key stands in a setting.
    """
    certificate = settings.get("ssl.certificate.location")
    key = settings.get("ssl.key.location", certificate)
    if certificate is None or key is None:
        return {}
    java = {"ssl.keystore.type": "PEM"}
    if key == certificate:
        java["ssl.keystore.location"] = certificate
    else:
        java["config.providers"] = "folder"
        java["config.providers.folder.class"] = (
            "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
        )
        java["ssl.keystore.certificate.chain"] = _read_by_java(certificate)
        java["ssl.keystore.key"] = _read_by_java(key)
    if "ssl.key.password" in settings:
        java["ssl.key.password"] = settings["ssl.key.password"]
    return java


def _read_by_java(file: str) -> str:
    path = PurePath(file)
    return f"${{folder:{path.parent}:{path.name}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
