"""The words of Millrace as frozen dataclasses, and the shapes that files of them have."""

from millrace.model.impact import Impact, setting
from millrace.model.job import (
    Emit,
    Input,
    Isolation,
    Job,
    Mode,
    Order,
    Output,
    PortBuffers,
    Start,
)
from millrace.model.outside import Read, Write
from millrace.model.pilot import FrameworkKind, Pilot
from millrace.model.pipeline import Pipeline
from millrace.model.policy import Checkpoint, End, Failover, OnError, Overload
from millrace.model.quantity import Duration, Rate, Records, Size
from millrace.model.site import Broker, BrokerKind, Engine, EngineKind, Site, Toolchain
from millrace.model.stream import Encryption, Format, Promise, Stream, Transport
from millrace.model.types import Secret
from millrace.model.window import Late, Window
from millrace.model.work import (
    Build,
    Constraint,
    Generator,
    Jar,
    KeyedState,
    Process,
    Producers,
    Variant,
)

__all__ = [
    "Broker",
    "BrokerKind",
    "Build",
    "Checkpoint",
    "Constraint",
    "Duration",
    "Emit",
    "Encryption",
    "End",
    "Engine",
    "EngineKind",
    "Failover",
    "Format",
    "FrameworkKind",
    "Generator",
    "Impact",
    "Input",
    "Isolation",
    "Jar",
    "Job",
    "KeyedState",
    "Late",
    "Mode",
    "OnError",
    "Order",
    "Output",
    "Overload",
    "Pilot",
    "Pipeline",
    "PortBuffers",
    "Process",
    "Producers",
    "Promise",
    "Rate",
    "Read",
    "Records",
    "Secret",
    "Site",
    "Size",
    "Start",
    "Stream",
    "Toolchain",
    "Transport",
    "Variant",
    "Window",
    "Write",
    "setting",
]
