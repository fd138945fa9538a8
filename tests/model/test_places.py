from __future__ import annotations

from millrace.model import Job, Pipeline, Stream
from millrace.model.graph import in_order
from millrace.model.places import World
from millrace.spec import load_text

TEXT = """
pipeline: p
pilots: {x: {resource: ssh://h, cores: 2}}
sites:
  managed: {broker: kafka, pilot: x}
  attached: {engine: {kind: spark, address: "spark://h:7077/"}, broker: {address: "h:9092"}}
streams:
  a: {site: managed, dead_letters: d}
  b: {site: attached, topic: t}
  c: {site: managed, transport: zmq}
  d: {site: managed}
jobs:
  one: {site: managed, from: a, to: b, sql: x}
  two: {site: attached, from: b, to: c, sql: x}
"""


def world(text: str = TEXT) -> World:
    return World(load_text(text).required())


def test_attached_things_are_their_addresses() -> None:
    renamed = world(TEXT.replace("attached", "elsewhere").replace("7077/", "7077"))
    assert world().stream_key("b") == renamed.stream_key("b")
    assert world().engine_key(world().pipeline.jobs["two"]) == renamed.engine_key(
        renamed.pipeline.jobs["two"]
    )


def test_managed_things_are_their_site_and_its_pilot() -> None:
    grown = world(TEXT.replace("cores: 2", "cores: 4"))
    other = world(TEXT.replace("ssh://h,", "ssh://i,"))
    assert world().stream_key("a") == grown.stream_key("a")
    assert world().stream_key("a") != other.stream_key("a")
    assert world().pilots.keys() == grown.pilots.keys() != other.pilots.keys()


def test_who_uses_what() -> None:
    here = world()
    assert here.readers[here.stream_key("a")] == ["one"]
    assert here.writers[here.stream_key("c")] == ["two"]
    assert here.rejecters == {here.stream_key("d"): ["one"]}
    assert [site.name for site in here.brokers.values()] == ["managed"]


def test_what_is_not_declared_has_a_key_of_its_own() -> None:
    lone = World(Pipeline("p", streams={"s": Stream(name="s", site="gone")}))
    assert lone.stream_key("s") != lone.stream_key("t")
    assert lone.pilot_key("x") == ("x",)
    assert lone.engine_key(Job(name="j", site="gone", sql="x"))[1] == "gone"


def test_jobs_in_the_order_of_the_data_and_by_name() -> None:
    jobs = "".join(f"  w-{n}: {{to: s, process: x, site: n}}\n" for n in (3, 1, 2))
    text = (
        "pipeline: p\nsites: {n: {engine: process, broker: kafka}}\nstreams: {s: {}}\njobs:\n"
        f"  a: {{from: s, process: x, site: n}}\n{jobs}"
    )
    assert [job.name for job in in_order(load_text(text).required())] == ["w-1", "w-2", "w-3", "a"]
