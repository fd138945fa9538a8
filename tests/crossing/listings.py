"""SpecK's listings 1.1 and 1.2 as compositions of Millrace: the same jobs, streams and hosts."""

from __future__ import annotations

from collections import Counter

from millrace.model.pipeline import Pipeline
from millrace.spec import load_text

#: By job: where it runs, what it reads and what it writes; a stream is a topic at a host's broker.
Jobs = dict[str, tuple[str, str, str]]
FIRST: Jobs = {
    "A": ("h39", "T-1@h39", "T-C-filter@h192"),
    "B": ("h48", "T-2@h48", "T-C-filter@h192"),
    "C": ("h192", "T-C-filter@h192", "T-D-merger@h177"),
    "D": ("h177", "T-D-merger@h177", "T-D-total@h177"),
}
SECOND: Jobs = {
    "A": FIRST["A"],
    "C": ("h192", "T-C-filter@h192", "T-C2-filter@h192"),
    "C2": ("h192", "T-C2-filter@h192", "T-D-merger@h193"),
    "D": ("h177b", "T-D-merger@h193", "T-D-total@h193"),
}
#: What each job adds to a record: the number of its jar in the listings.
LABELS = {"A": "1", "B": "2", "C": "3", "C2": "4", "D": "4"}
_SQL = "SELECT CAST(concat(CAST(value AS STRING), '/{label}') AS BINARY) AS value FROM `{stream}`"


def composed(jobs: Jobs, broker: str) -> Pipeline:
    """Return the composition on Spark, with brokers of a kind."""
    streams = dict.fromkeys(name for _, source, sink in jobs.values() for name in (source, sink))
    hosts = dict.fromkeys(site for site, _, _ in jobs.values())
    lines = ["pipeline: speck", "sites:"]
    for host in dict.fromkeys((*hosts, *(name.partition("@")[2] for name in streams))):
        engine = "" if host in hosts else "engine: [], "
        brokers = any(name.endswith(f"@{host}") for name in streams)
        lines.append(f"  {host}: {{{engine}{f'broker: {broker}' if brokers else ''}}}")
    lines.append("streams:")
    for name in streams:
        topic, _, host = name.partition("@")
        lines.append(f"  {_name(name)}: {{site: {host}, topic: {topic}, format: raw}}")
    lines.append("jobs:")
    for job, (site, source, sink) in jobs.items():
        sql = _SQL.format(label=LABELS[job], stream=_name(source))
        ends = f"from: {_name(source)}, to: {_name(sink)}"
        lines.append(f'  {job}: {{site: {site}, {ends}, sql: "{sql}"}}')
    return load_text("\n".join(lines)).required()


def _name(stream: str) -> str:
    return stream.replace("@", "-at-")


def sent(name: str, numbers: range) -> list[bytes]:
    """Return the values of some records."""
    return [f"{name}{number}".encode() for number in numbers]


def results(jobs: Jobs, values: dict[str, list[bytes]]) -> Counter[bytes]:
    """Return what arrives in T-D-total of what is sent to topics, as plain Python has it."""
    found: Counter[bytes] = Counter()
    for topic, records in values.items():
        at = next(source for _, source, _ in jobs.values() if source.startswith(f"{topic}@"))
        passed = ""
        while (
            job := next((j for j, (_, source, _) in jobs.items() if source == at), None)
        ) is not None:
            passed += f"/{LABELS[job]}"
            at = jobs[job][2]
        found.update(value + passed.encode() for value in records)
    return found
