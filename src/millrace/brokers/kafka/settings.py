"""Settings of Kafka's clients: an allow-list, and the two names that each has.

Files use librdkafka's names, which are the plainer ones. What can name a class, a file of the
broker's choice or an address to call (`sasl.jaas.config`, `*.endpoint.url`, `plugin.library.paths`)
is not on the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from millrace.errors import OperationFailed, nearest

#: Settings that both clients call the same.
_SAME: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "security.protocol",
        "sasl.mechanism",
        "ssl.endpoint.identification.algorithm",
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
    mechanism = settings.get("sasl.mechanism")
    if mechanism is not None and mechanism not in _MODULES:
        raise OperationFailed(
            "setting-not-allowed",
            f"{where}: sasl.mechanism {mechanism!r} is not known",
            f"use one of {', '.join(_MODULES)}",
        )
    return dict(settings)


def for_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by the names of Java's client."""
    java = {name: value for name, value in settings.items() if name in _SAME}
    if "sasl.username" in settings:
        module = _MODULES[settings.get("sasl.mechanism", "PLAIN")]
        user, password = settings["sasl.username"], settings.get("sasl.password", "")
        java["sasl.jaas.config"] = (
            f"{module} required username={_quoted(user)} password={_quoted(password)};"
        )
    if "ssl.ca.location" in settings:
        java["ssl.truststore.type"] = "PEM"
        java["ssl.truststore.location"] = settings["ssl.ca.location"]
    if "ssl.certificate.location" in settings or "ssl.key.location" in settings:
        java["ssl.keystore.type"] = "PEM"
        java["ssl.keystore.location"] = settings.get(
            "ssl.certificate.location", settings.get("ssl.key.location", "")
        )
    if "ssl.key.password" in settings:
        java["ssl.key.password"] = settings["ssl.key.password"]
    return java


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
