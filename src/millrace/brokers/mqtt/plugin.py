"""MQTT as a plug-in: see the port `BrokerPlugin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from millrace.brokers.mqtt.broker import AttachedMqtt, ManagedMqtt
from millrace.brokers.mqtt.log import MqttLog
from millrace.brokers.mqtt.readers import Readers
from millrace.brokers.mqtt.receiver import ReceiverConfig, command
from millrace.brokers.mqtt.settings import checked, of_managed
from millrace.ports import BrokerOrder, Log, Reception

#: Its folder in that of a site.
_FOLDER = "mqtt"


class MqttPlugin:
    """Makes a site's broker of MQTT."""

    keeps = False

    def broker(self, order: BrokerOrder) -> AttachedMqtt:
        """Return a broker, attached where it has an address, else managed; see the port.

        Streams are not recorded unless somebody reads their log: jobs have receivers.
        """
        place = order.place / _FOLDER
        readers = Readers(order.place / "mqtt-readers")
        if order.address is None:
            return ManagedMqtt(place, order.options, order.where, recorded=False, readers=readers)
        ours = ManagedMqtt.settings_at(place)
        if ours is not None and ours["address"] == order.address:
            _, client = of_managed(order.options, order.where)
            return AttachedMqtt({**ours, **client}, order.where, recorded=False, readers=readers)
        given = {**order.options, "address": order.address}
        return AttachedMqtt(given, order.where, recorded=False, readers=readers)

    def log(self, settings: Mapping[str, str]) -> Log:
        """Return the log that is reached by settings; see the port."""
        return MqttLog(settings)

    def address(self, place: Path) -> str | None:
        """Return where a managed one is reached; see the port."""
        settings = ManagedMqtt.settings_at(place / _FOLDER)
        return None if settings is None else settings["address"]

    def receiver(self, reception: Reception) -> Sequence[str]:
        """Return what receives a stream; see the port. Its settings are in a file of its own."""
        settings = checked(reception.settings, f"receiver of {reception.stream}")
        config = ReceiverConfig(settings, reception.name, reception.stream, str(reception.folder))
        file = Path(f"{reception.folder}.private")
        config.write(file)
        return command(file)


PLUGIN = MqttPlugin()
