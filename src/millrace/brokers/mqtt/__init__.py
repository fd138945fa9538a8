"""MQTT: a Mosquitto that Millrace starts as a child process, or a broker that is already there."""

from millrace.brokers.mqtt.broker import AttachedMqtt, ManagedMqtt
from millrace.brokers.mqtt.log import MqttLog
from millrace.brokers.mqtt.session import forget

__all__ = ["AttachedMqtt", "ManagedMqtt", "MqttLog", "forget"]
