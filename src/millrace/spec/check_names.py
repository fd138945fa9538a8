"""Names that leave the file: for brokers and for the network. What is no such name goes nowhere."""

from __future__ import annotations

import re
from typing import Final

from millrace.errors import Problems
from millrace.model.pipeline import Pipeline
from millrace.model.stream import Transport
from millrace.spec.expand import Items

#: A host, by its name or address, perhaps with who logs in there.
HOST: Final = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_\[:][A-Za-z0-9_.:%\]-]{0,254}"
)
#: What Kafka takes for the name of a topic.
TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
#: What other brokers take: anything that can be seen, and none of MQTT's wildcards.
OTHER_TOPIC: Final = re.compile(r"[^\x00-\x1f\x7f#+\ud800-\udfff]{1,1000}")
#: Of MQTT many topics may be read as one stream.
MANY_TOPICS: Final = re.compile(
    r"(?=.)(?:(?:[^\x00-\x1f\x7f#+/\ud800-\udfff]*|\+)(?:/|$)){0,100}#?"
)


def check_names(pipeline: Pipeline, items: Items, problems: Problems) -> None:
    """Tell of hosts and topics that can't be any."""
    for name, site in pipeline.sites.items():
        if site.host is not None and not HOST.fullmatch(site.host):
            item = items["sites"].get(name)
            problems.error(
                "bad-host",
                f"site {name} can't be at {site.host[:200]!r}",
                item.locate("host") if item else site.at,
                expected="the name or address of a host, perhaps with user@ before it",
                hint="write it as `ssh` takes it",
            )
    written = {name for job in pipeline.jobs.values() for name in job.writes}
    for name, stream in pipeline.streams.items():
        if stream.transport is None and stream.site not in pipeline.sites:
            continue  # what is wrong with its site was told
        kafka = stream.transport in (Transport.KAFKA, None)
        topic = stream.topic
        if topic is None or (TOPIC if kafka else OTHER_TOPIC).fullmatch(topic):
            continue
        read_only = stream.transport == Transport.MQTT and name not in written
        if read_only and len(topic) <= 1000 and MANY_TOPICS.fullmatch(topic):
            continue
        problems.error(
            "bad-topic",
            f"stream {name} can't be the topic {topic[:200]!r}",
            items["streams"][name].locate("topic"),
            expected="letters, digits and . _ - (249 at most)" if kafka else "text in one line",
            hint="rename it, or leave `topic` out: the stream's own name is taken then",
        )
