"""SpecK, SkePU-Streaming and pilot descriptions: loaded as they are, and written again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import ExportError
from millrace.model import Encryption, Pipeline, Transport
from millrace.model.site import BrokerKind, EngineKind
from millrace.spec import FileFormat, Loaded, load, load_text
from millrace.spec.skepu_export import skepu_of
from millrace.spec.speck import speck_of
from millrace.spec.yaml_writer import write_yaml
from tests.conftest import FIXTURES, only

LISTINGS = ("speck-listing-1.1.yaml", "speck-listing-1.2.yaml")


@pytest.mark.parametrize("name", LISTINGS)
def test_speck_listings_load_and_go_there_and_back(name: str) -> None:
    loaded = load(FIXTURES / name)
    pipeline = loaded.required()
    assert loaded.format is FileFormat.SPECK
    again = load_text(write_yaml(speck_of(pipeline)))
    assert again.format is FileFormat.SPECK
    assert again.required() == pipeline
    assert load_text(json.dumps(speck_of(pipeline))).required() == pipeline


def test_speck_jobs_have_their_engine_brokers_and_topics() -> None:
    pipeline = load(FIXTURES / LISTINGS[1]).required()
    job = pipeline.jobs["D"]
    site = pipeline.sites[job.site or ""]
    assert site.engines[0].kind is EngineKind.FLINK
    assert site.engines[0].address == "http://172.16.177.20:8081/"
    source = pipeline.streams[job.reads[0]]
    assert (source.site, source.transport) == ("172.16.193.22", Transport.MQTT)
    broker = pipeline.sites["172.16.193.22"]
    assert broker.engines == ()
    assert broker.broker is not None
    assert broker.broker.kind is BrokerKind.MQTT
    assert job.jar is not None
    assert (job.jar.path, job.jar.entry) == ("/usr/src/app/jars/test-4.jar", "package.ExampleJob")


@pytest.mark.parametrize("jobs", ["", "{}", "3", "{a: {job_name: x}}"])
def test_jobs_of_speck_that_are_no_list_are_told(jobs: str) -> None:
    loaded = load_text(f"jobs: {jobs}\n", file_format=FileFormat.SPECK)
    assert [(item.code, item.hint != "") for item in loaded.diagnostics] == [("wrong-type", True)]


SPECK = """
jobs:
- {job_name: A, spe_address: "http://h:8081", source_broker: "tcp://h:1883", sink_broker: "tcp://h:1884",
   source_topic: t/1, sink_topic: t, entry_class: c, job_path: j}
- {job_name: B, spe_address: "spark://h:7077", source_broker: "tcp://h:1884", sink_broker: "kafka://k:9092",
   source_topic: t, sink_topic: t, entry_class: c, job_path: j}
"""


def test_hosts_with_several_brokers_and_topics_on_several_brokers() -> None:
    pipeline = load_text(SPECK).required()
    assert set(pipeline.sites) == {"h-8081", "h-7077", "h-1883", "h-1884", "k"}
    assert set(pipeline.streams) == {"t-1", "t@h-1884", "t@k"}
    assert pipeline.streams["t-1"].topic == "t/1"
    assert pipeline.streams["t@k"].transport is Transport.KAFKA
    again = load_text(write_yaml(speck_of(pipeline))).required()
    assert again == pipeline


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("job_name: B", "job_name: A", "declared-twice"),
        ("job_name: B", "jobname: B", "unknown-key"),
        ("job_path: j}", "}", "missing-key"),
        ("spark://h:7077", "h:7077", "bad-address"),
        ("kafka://k:9092", "http://k:9092", "bad-address"),
        ("entry_class: c", "entry_class: 5", "wrong-type"),
        ("jobs:", "job:", "unknown-key"),
        ("job_name: B", "job_name: a b", "bad-name"),
    ],
)
def test_wrong_speck_files_are_told(old: str, new: str, code: str) -> None:
    loaded = load_text(SPECK.replace(old, new), file_format=FileFormat.SPECK)
    assert code in {item.code for item in loaded.diagnostics}
    assert all(item.at is not None for item in loaded.diagnostics)


def test_what_is_no_list_of_maps_is_told() -> None:
    assert load_text("jobs: [5, {job_name: x}]").diagnostics[0].code == "wrong-type"
    assert load_text("jobs: {a: {}}", file_format=FileFormat.SPECK).pipeline is None
    assert load_text("jobs: []").required().jobs == {}


Loads = Callable[..., Loaded]


def test_speck_says_what_it_can_not_say(loads: Loads) -> None:
    pipeline = loads("""
pipeline: p
description: d
sites: {n: {broker: kafka, host: x, engine: {kind: spark, options: {a: 1}}}}
pilots: {x: {}}
streams: {a: {partitions: 3}, b: {}}
jobs:
  j: {from: {stream: a, as: z}, to: b, sql: x}
  k: {from: [a, b], jar: x}
  l: {from: a, to: b, jar: x}
""").required()
    with pytest.raises(ExportError) as caught:
        speck_of(pipeline)
    messages = "\n".join(item.message for item in caught.value.diagnostics)
    for part in (
        "description",
        "pilot 'x'",
        "`host`",
        "`options`",
        "`partitions`",
        "is json",
        "jars, not sql",
        "one source and one sink",
        "entry class",
        "`as`",
        "address of its engine",
    ):
        assert part in messages, part


def test_the_skepu_example_loads_and_goes_there_and_back() -> None:
    loaded = load(FIXTURES / "skepu-producer-consumer.json")
    pipeline = loaded.required()
    assert loaded.format is FileFormat.SKEPU
    assert pipeline.name == "example_app"
    site = pipeline.sites["rbpi_2"]
    assert (site.host, site.cores) == ("192.168.0.102", (0,))
    assert site.toolchain is not None
    assert site.toolchain.cross_compile
    stream = pipeline.streams["stream"]
    assert (stream.transport, stream.port, stream.encryption) == (
        Transport.ZMQ,
        7890,
        Encryption.CURVE,
    )
    job = pipeline.jobs["producer"]
    assert job.buffers is not None
    assert job.buffers.output is not None
    assert job.buffers.output.count == 3
    assert job.variants is not None
    variant = job.variants["producer_variant_1"]
    assert (variant.kind, variant.backend) == ("skepu", "openmp")
    assert variant.build is not None
    assert variant.build.output == "producer"
    assert load_text(skepu_of(pipeline)).required() == pipeline


SKEPU = """
// a comment, and /* another */
resources { hosts: [ { id: h1, host: "10.0.0.1" executor_affinity: "0-2,4" } { id: h2 } ] }
encryption: none
application {
  id: app
  constants: [ { id: N value: 2 }, { id: M value: $N * (3 + 1) - 10 / 5 }
               { id: S value: "a" + "b" } ]
  workflow: [
    pipeline {
      "id": one,
      input_buffer_size: $M  /* inherited
                                downwards */
      streams: [ { id: s model: TCP port: 7000 + $N buffer_size: $N, transfer: push }
                 { id: t encryption: CurveZMQ } ]
      tasks: [
        { id: a host: $h1 output_streams: [$s, $t] cores: "1" }
        { id: b host: $h2 input_streams: [$s] input_buffer_size: -1 + 2
          variants: [ cpp { id: v build: { source: $S output: $h1.host } default: true }
                      { id: w } ] }
        { id: c host: $h2 input_streams: [$t] }
      ]
    }
  ]
}
"""


def skepu(text: str = SKEPU) -> Pipeline:
    return load_text(text).required()


def test_skepu_expressions_scopes_and_blocks() -> None:
    pipeline = skepu()
    assert pipeline.sites["h1"].cores == (0, 1, 2, 4)
    assert pipeline.streams["s"].port == 7002
    assert str(pipeline.streams["s"].buffer) == "2 records"
    assert pipeline.streams["s"].transfer == "push"
    assert pipeline.streams["t"].encryption is Encryption.CURVE
    buffers = [
        job.buffers.input.count
        for job in pipeline.jobs.values()
        if job.buffers and job.buffers.input
    ]
    assert buffers == [6, 1, 6]
    assert pipeline.jobs["a"].pin == (1,)
    assert pipeline.jobs["a"].group == "one"
    variants = pipeline.jobs["b"].variants
    assert variants is not None
    assert variants["v"].build is not None
    assert (variants["v"].build.source, variants["v"].build.output) == ("ab", "10.0.0.1")
    assert variants["v"].default
    assert load_text(skepu_of(pipeline)).required() == pipeline


@pytest.mark.parametrize(
    ("old", "new", "code", "hint"),
    [
        ("$h2 input_streams: [$s]", "$h3 input_streams: [$s]", "unknown-reference", "$h2"),
        ("id: app", "ide: app", "unknown-key", "'id'"),
        ("model: TCP", "model: UDP", "wrong-type", "TCP"),
        ("10 / 5", "10 / 0", "expression", ""),
        ('"a" + "b"', '"a" + 1', "expression", "two texts"),
        ("{ id: t enc", "{ id: s enc", "declared-twice", "rename"),
        ("id: c host", "id: b host", "declared-twice", "rename"),
        ("{ id: h2 }", "{ idd: h2 }", "missing-key", "id"),
        ("tasks: [", "tasks [", "syntax", "a bracket"),
        ("tasks: [", "tasks: 5 x: [", "unknown-key", ""),
        ("application {", "program {", "unknown-key", ""),
        ("workflow: [", "workflow: 5 constants: [", "duplicate-key", "remove"),
        ("$N * (3", "$N * 9000000000000 * 9000000000 * (3", "expression", ""),
        ('cores: "1"', 'cores: "x"', "wrong-type", "whole number"),
        ("streams: [ {", "streams: 5 other: [ {", "wrong-type", ""),
        ("{ id: v build: { source", "{ id: v build: { sauce", "unknown-key", "'source'"),
        ("cpp { id: v", "cpp { xid: v", "unknown-key", ""),
    ],
)
def test_wrong_skepu_files_are_told(old: str, new: str, code: str, hint: str) -> None:
    assert old in SKEPU
    loaded = load_text(SKEPU.replace(old, new), file_format=FileFormat.SKEPU)
    found = {item.code: item for item in loaded.diagnostics}
    assert code in found, found
    assert hint in f"{found[code].hint} {found[code].expected}"
    assert found[code].at is not None


def test_skepu_includes(write: Callable[..., Path]) -> None:
    main = '#include "hosts"\n' + SKEPU.replace(SKEPU.splitlines()[2], "")
    hosts = SKEPU.splitlines()[2]
    path = write(main, name="w.json", hosts=hosts)
    assert load(path).required() == skepu()
    path = write('#include "b"\n', name="a", b='#include "a"\n')
    assert only_code(load(path)) == "include-cycle"
    path = write('#include "../../x"\napplication { id: a workflow: [] }', name="a")
    assert only_code(load(path)) == "include-escape"
    path = write('#include "gone"\napplication { id: a workflow: [] }', name="a")
    assert only_code(load(path)) == "unreadable"
    path = write('#include "bad"\napplication { id: a workflow: [] }', name="a", bad="{ x: [")
    assert only_code(load(path)) == "syntax"


def only_code(loaded: Loaded) -> str:
    return loaded.diagnostics[0].code


def test_deep_and_large_skepu_files_are_refused() -> None:
    deep = "application { id: x y: " + "[" * 10_000 + "]" * 10_000 + " }"
    assert only_code(load_text(deep)) == "too-deep"
    large = "application { id: x } // " + "x" * 3_000_000
    assert only_code(load_text(large)) == "too-large"
    open_end = "application { " * 10_000
    assert only_code(load_text(open_end)) == "syntax"


def test_skepu_says_what_it_can_not_say(loads: Loads) -> None:
    pipeline = loads("""
pipeline: p
description: d
sites: {n-1: {broker: kafka}}
pilots: {x: {}}
streams: {a: {partitions: 3, encryption: tls}, b: {}}
jobs: {j: {from: {stream: a, as: z}, to: b, sql: x, variants: {v: {code: m}}}}
""").required()
    with pytest.raises(ExportError) as caught:
        skepu_of(pipeline)
    messages = "\n".join(item.message for item in caught.value.diagnostics)
    for part in (
        "description",
        "pilot 'x'",
        "`broker`",
        "`partitions`",
        "formats can't be said",
        "tasks are programs",
        "streams are direct",
        "pipeline block",
        "`code`",
        "CurveZMQ or none",
        "only run processes",
        "references are words",
        "`as`",
    ):
        assert part in messages, part


def test_variants_without_a_kind_or_with_only_a_backend() -> None:
    text = SKEPU.replace("{ id: w }", "{ id: w backend: cuda }").replace(
        "build: { source: $S output: $h1.host }", "build: { type: cmake }"
    )
    pipeline = skepu(text)
    assert load_text(skepu_of(pipeline)).required() == pipeline


PILOT = {
    "service_url": "slurm+ssh://login1.wrangler.tacc.utexas.edu",
    "number_cores": 48,
    "type": "spark",
}


def test_a_pilot_description_loads() -> None:
    loaded = load_text(json.dumps(PILOT))
    pilot = loaded.required().pilots["pilot-1"]
    assert loaded.format is FileFormat.PILOT
    assert (pilot.resource, pilot.cores, pilot.framework) == (PILOT["service_url"], 48, "spark")
    assert loaded.required().sites == {}


def test_pilot_descriptions_extend_each_other() -> None:
    first = {
        **PILOT,
        "name": "one",
        "walltime": 59,
        "queue": "normal",
        "config_name": "wrangler",
        "number_of_nodes": 2,
        "cores_per_node": 24,
        "project": "x",
        "working_directory": "/tmp/w",
    }
    second = {"resource": "fork://localhost", "type": "kafka", "parent": "one"}
    pilots = load_text(json.dumps([first, second])).required().pilots
    assert str(pilots["one"].walltime) == "59 min"
    assert (pilots["one"].nodes, pilots["one"].config) == (2, "wrangler")
    assert (pilots["pilot-2"].parent, pilots["pilot-2"].resource) == ("one", "local://localhost")


@pytest.mark.parametrize(
    ("description", "code"),
    [
        ({**PILOT, "number_core": 3}, "unknown-key"),
        ({**PILOT, "resource": "x"}, "two-names"),
        ({**PILOT, "type": "sparkk"}, "wrong-type"),
        ({**PILOT, "number_cores": 0}, "wrong-type"),
        ([{**PILOT, "name": "a"}, {**PILOT, "name": "a"}], "declared-twice"),
        ([PILOT, 5], "wrong-type"),
    ],
)
def test_wrong_pilot_descriptions_are_told(description: object, code: str) -> None:
    assert load_text(json.dumps(description)).diagnostics[0].code == code


def test_a_format_can_be_forced() -> None:
    assert only(load_text("a: 1", file_format=FileFormat.PILOT)).code == "unknown-key"
    assert load_text("a: 1", file_format=FileFormat.SKEPU).format is FileFormat.SKEPU
