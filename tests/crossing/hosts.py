"""The hosts of SpecK's listings, here: a Flink and a Mosquitto each, without passwords."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from millrace.brokers.mqtt import AttachedMqtt
from millrace.engines.flink import ManagedFlink
from millrace.engines.flink.cluster import libraries
from millrace.machine import Child, Java, fetch_jars, leashed
from millrace.machine.ports import free_ports
from tests.crossing.listings import LABELS, Jobs

JAVA = Path(__file__).parent / "java"
UP_SECONDS = 30.0
ENTRY = "example.ExampleJob"


def made_jars(folder: Path, java: Java, cache: Path) -> None:
    """Compile the example job; each jar has a number of its own (test-1.jar ...)."""
    (client,) = fetch_jars(["mqtt-client"], java, cache, file=JAVA / "ivy.xml")
    (jar,) = client.glob("*.jar")
    classes = folder / "classes"
    shutil.unpack_archive(jar, classes, "zip")
    command = [
        "javac",
        "-proc:none",
        "-nowarn",
        "-cp",
        f"{libraries()}/*:{jar}",
        "-d",
        str(classes),
    ]
    sources = [str(path) for path in sorted(JAVA.glob("example/*.java"))]
    subprocess.run([*command, *sources], check=True, timeout=120)
    for label in sorted(set(LABELS.values())):
        (classes / "label").write_text(label)
        made = shutil.make_archive(str(folder / f"test-{label}"), "zip", classes)
        Path(made).rename(folder / f"test-{label}.jar")


@dataclass
class Hosts:
    """By name, the addresses of each host's Flink and Mosquitto."""

    folder: Path
    java: Java
    flinks: dict[str, ManagedFlink] = field(default_factory=dict)
    brokers: dict[str, str] = field(default_factory=dict)
    children: list[Child] = field(default_factory=list)

    def start(self, flinks: Sequence[str], brokers: Sequence[str]) -> None:
        for name in brokers:
            self.brokers[name] = self._mosquitto(name)
        for name in flinks:
            options = {"taskmanager.numberOfTaskSlots": "4"}
            self.flinks[name] = ManagedFlink(self.folder / name / "flink", self.java, options)
        with ThreadPoolExecutor() as pool:
            list(pool.map(ManagedFlink.wait, self.flinks.values()))

    def _mosquitto(self, name: str) -> str:
        place = self.folder / name
        place.mkdir(parents=True)
        (port,) = free_ports(1)
        config = place / "mosquitto.conf"
        config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n")
        program = shutil.which("mosquitto") or "mosquitto"
        self.children.append(Child.start(leashed([program, "-c", str(config)]), place / "log"))
        address = f"tcp://127.0.0.1:{port}"
        until = time.monotonic() + UP_SECONDS
        while not AttachedMqtt({"address": address}).status().up:
            assert time.monotonic() < until, (place / "log").read_text()
            time.sleep(0.05)
        return address

    def composition(self, jobs: Jobs) -> str:
        """Return a listing as SpecK writes it, with the addresses of these hosts."""
        entries = []
        for name, (host, source, sink) in jobs.items():
            (source_topic, _, source_host), (sink_topic, _, sink_host) = (
                stream.partition("@") for stream in (source, sink)
            )
            entries.append(
                {
                    "job_name": name,
                    "spe_address": self.flinks[host].page,
                    "source_broker": self.brokers[source_host],
                    "sink_broker": self.brokers[sink_host],
                    "source_topic": source_topic,
                    "sink_topic": sink_topic,
                    "entry_class": ENTRY,
                    "job_path": str(self.folder / f"test-{LABELS[name]}.jar"),
                }
            )
        return yaml.safe_dump({"jobs": entries}, sort_keys=False)


@contextmanager
def hosts(folder: Path, java: Java, cache: Path) -> Iterator[Hosts]:
    """Give hosts in a folder, none of them started; all are ended afterwards."""
    made_jars(folder, java, cache)
    made = Hosts(folder, java)
    try:
        yield made
    finally:
        with ThreadPoolExecutor() as pool:
            list(pool.map(ManagedFlink.kill, made.flinks.values()))
        for child in made.children:
            child.end(2.0)
