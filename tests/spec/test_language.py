"""Includes, constants, expressions, inheritance, repetition, profiles: what a file may say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.errors import SpecError
from millrace.model import Duration, Job, Pipeline, Records, Secret, Size, Window
from millrace.model.stream import Format, Promise
from millrace.spec import Loaded, load_text
from tests.conftest import only

Loads = Callable[..., Loaded]

BASE = """
pipeline: p
sites: {north: {broker: kafka}}
streams: {raw: {}, clean: {}}
jobs:
  clean: {from: raw, to: clean, sql: SELECT 1}
"""


def valid(loaded: Loaded) -> Pipeline:
    assert loaded.diagnostics == ()
    assert loaded.pipeline is not None
    return loaded.pipeline


def test_what_one_site_makes_clear_is_filled_in(loads: Loads) -> None:
    pipeline = valid(loads(BASE))
    assert pipeline.jobs["clean"].site == "north"
    assert pipeline.streams["raw"].site == "north"
    assert pipeline.streams["raw"].transport == "kafka"


def test_a_file_without_sites_runs_here(loads: Loads) -> None:
    pipeline = valid(loads("pipeline: p\nstreams: {a: }\njobs: {j: {from: a, sql: SELECT 1}}"))
    assert list(pipeline.sites) == ["local"]


def test_a_stream_is_where_its_writers_are_or_else_its_readers(loads: Loads) -> None:
    pipeline = valid(
        loads("""
pipeline: p
sites: {a: {broker: kafka}, b: {broker: mqtt}}
streams: {in: {}, mid: {}, out: {}}
jobs:
  one: {site: a, from: in, to: mid, sql: SELECT 1}
  two: {site: b, from: mid, to: out, sql: SELECT 1}
""")
    )
    assert [pipeline.streams[name].site for name in ("in", "mid", "out")] == ["a", "a", "b"]
    assert pipeline.streams["out"].transport == "mqtt"


def test_json_is_the_same_document(loads: Loads) -> None:
    text = """{\t"pipeline": "p\\/q \\ud83d\\ude00", "sites": {"north": {"broker": "kafka"}},
\t"streams": {"raw": {}, "clean": {}},
\t"jobs": {"clean": {"from": "raw", "to": ["clean"], "sql": "SELECT 1"}}}"""
    pipeline = valid(load_text(text, "p.json"))
    assert pipeline.name == "p/q \N{GRINNING FACE}"
    assert pipeline.jobs == valid(loads(BASE)).jobs


def test_constants_are_worked_out_in_the_order_they_need(loads: Loads) -> None:
    pipeline = valid(
        loads(
            BASE.replace(
                "streams: {raw: {}",
                """
constants: {c: "${{ b * 2 }}", b: "${{ a + 1 }}", a: 20, deep: {x: ["${{ c }}"]}}
streams: {raw: {partitions: "${{ deep.x[0] }}"}""",
            )
        )
    )
    assert pipeline.streams["raw"].partitions == 42


def test_expressions_inside_a_text_and_alone(loads: Loads) -> None:
    pipeline = valid(loads(BASE.replace("SELECT 1", '"SELECT ${{ 1 + 1 }} $${{ x }}"')))
    assert pipeline.jobs["clean"].sql == "SELECT 2 ${{ x }}"


def test_expressions_refer_to_other_things(loads: Loads) -> None:
    pipeline = valid(
        loads("""
pipeline: p
sites: {n: {broker: kafka}}
defaults: {streams: {partitions: 3}}
streams:
  raw: {retention: 7 d}
  out:
    partitions: ${{ streams.raw.partitions * 2 }}
    retention: ${{ streams['raw'].retention }}
jobs:
  j:
    {from: raw, to: out, map: "m:f", mode: "${{ jobs.k.mode }}",
     replicas: "${{ streams.out.partitions + 1 }}"}
  k: {from: raw, sql: x}
""")
    )
    assert pipeline.streams["out"].partitions == 6
    assert pipeline.streams["out"].retention == Duration.parse("7 d")
    assert pipeline.jobs["j"].replicas == 7


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("streams.nope.partitions", "there is no 'nope' under streams"),
        ("streams.raw.partitions", "needs itself"),
        ("constants_are_not_here", "is not known"),
    ],
)
def test_references_that_lead_nowhere_are_told(loads: Loads, expression: str, message: str) -> None:
    text = BASE.replace("{raw: {}", f'{{raw: {{partitions: "${{{{ {expression} }}}}"}}')
    assert message in loads(text).diagnostics[0].message


def test_the_nearest_value_wins(loads: Loads) -> None:
    pipeline = valid(
        loads("""
pipeline: p
sites: {n: {broker: kafka}}
defaults:
  jobs: {checkpoint: {every: 10 s, at: shared}, replicas: 2, group: heavy}
  streams: {format: csv}
groups:
  heavy: {jobs: {replicas: 3, checkpoint: {every: 20 s}}, streams: {format: avro}}
  light: {jobs: {replicas: 4}}
streams: {raw: {group: heavy}, out: {format: text}, other: {}}
jobs:
  a: {from: raw, to: out, sql: x}
  b: {from: raw, to: other, sql: x, group: light}
  c: {from: raw, sql: x, replicas: 9, checkpoint: {at: local}}
  d: {from: raw, sql: x, replicas: ~}
""")
    )
    jobs: dict[str, Job] = dict(pipeline.jobs)
    assert [jobs[name].replicas for name in "abcd"] == [3, 4, 9, 1]
    assert str(jobs["a"].checkpoint.every) == "20 s"
    assert jobs["a"].checkpoint.place == "shared"
    assert str(jobs["b"].checkpoint.every) == "10 s"
    assert (str(jobs["c"].checkpoint.every), jobs["c"].checkpoint.place) == ("20 s", "local")
    assert pipeline.streams["raw"].format is Format.AVRO
    assert pipeline.streams["out"].format is Format.TEXT
    assert pipeline.streams["other"].format is Format.CSV


def test_repetition_over_lists(loads: Loads) -> None:
    pipeline = valid(
        loads("""
pipeline: p
constants: {edges: [north, south]}
sites: {"${{ e }}": {for: {e: "${{ edges }}"}, broker: kafka}}
streams: {"s-${{ e }}": {for: {e: "${{ edges }}"}, site: "${{ e }}"}}
jobs:
  j-${{ e }}-${{ i }}:
    for: {e: "${{ edges }}", i: "${{ range(2) }}"}
    site: ${{ e }}
    from: s-${{ e }}
    sql: SELECT ${{ i }}
""")
    )
    assert list(pipeline.jobs) == ["j-north-0", "j-north-1", "j-south-0", "j-south-1"]
    assert pipeline.jobs["j-south-1"].sql == "SELECT 1"


def test_a_thousand_jobs_from_a_few_lines(loads: Loads) -> None:
    pipeline = valid(
        loads("""
pipeline: p
streams: {"t${{ i }}": {for: {i: "${{ range(1001) }}"}}}
jobs:
  j${{ i }}: {for: {i: "${{ range(1000) }}"}, from: "t${{ i }}", to: "t${{ i + 1 }}", sql: x}
""")
    )
    assert len(pipeline.jobs) == 1000


def test_includes_bring_their_part(loads: Loads) -> None:
    pipeline = valid(
        loads(
            "pipeline: p\ninclude: [a.yaml, parts/b.yaml]\n"
            "jobs: {j: {from: raw, sql: 'x${{ n }}'}}",
            a_yaml="constants: {n: 5}\nsites: {n: {broker: kafka}}\ninclude: parts/b.yaml",
            parts__b_yaml="streams: {raw: {}}\ndefaults: {streams: {partitions: 4}}",
        )
    )
    assert pipeline.jobs["j"].sql == "x5"
    assert pipeline.streams["raw"].partitions == 4


def test_the_including_file_is_nearer_than_what_it_includes(loads: Loads) -> None:
    pipeline = valid(
        loads(
            BASE + "include: a.yaml\ndefaults: {streams: {partitions: 2}}",
            a_yaml="defaults: {streams: {partitions: 9, format: csv}}",
        )
    )
    assert (pipeline.streams["raw"].partitions, pipeline.streams["raw"].format) == (2, "csv")


PROFILES = """
pipeline: p
profile: laptop
profiles:
  laptop: {include: laptop.yaml}
  cluster: {include: [cluster.yaml], constants: {n: 8}, defaults: {jobs: {replicas: 5}}}
constants: {n: 1}
streams: {raw: {partitions: "${{ n }}"}}
jobs: {j: {from: raw, sql: x}}
"""
SITES = {
    "laptop_yaml": "sites: {here: {broker: kafka}}",
    "cluster_yaml": "sites: {far: {broker: kafka}}",
}


def test_profiles_swap_the_sites(loads: Loads) -> None:
    laptop = valid(loads(PROFILES, **SITES))
    cluster = valid(loads(PROFILES, profile="cluster", **SITES))
    assert (list(laptop.sites), list(cluster.sites)) == (["here"], ["far"])
    assert (laptop.streams["raw"].partitions, cluster.streams["raw"].partitions) == (1, 8)
    assert (laptop.jobs["j"].replicas, cluster.jobs["j"].replicas) == (1, 5)


def test_an_unknown_profile_is_told_with_the_near_name(loads: Loads) -> None:
    told = loads(PROFILES, profile="cluser", **SITES).diagnostics[0]
    assert (told.code, told.nearest) == ("unknown-profile", "cluster")
    told = loads(PROFILES.replace("profile: laptop", "profile: lap"), **SITES).diagnostics[0]
    assert told.at is not None
    assert told.at.line == 3


def test_quantities_secrets_and_short_forms(loads: Loads) -> None:
    pipeline = valid(
        loads("""
pipeline: p
sites:
  n:
    engine: [spark, {kind: flink, address: "http://h:8081"}]
    broker: {kind: kafka, options: {sasl.password: {secret: env:PW}, retries: 3, x: 1.5, y: true}}
streams:
  raw: {buffer: 64 MB, promise: no-duplicates, retention: 1 GiB}
  out: {buffer: 3}
jobs:
  j:
    from: [raw, {stream: out, as: o, consumes: 2}]
    python: m:f
    window: 10 s
    on_error: {policy: retry, retries: 3}
    overload: {policy: drop-oldest, at: 1 min}
    end: never
    failover: 5 min
""")
    )
    broker = pipeline.sites["n"].broker
    assert broker is not None
    assert broker.options is not None
    assert broker.options["sasl.password"] == Secret(secret="env:PW")  # noqa: S106
    assert broker.options["y"] is True
    assert pipeline.streams["raw"].buffer == Size(64 * 10**6)
    assert pipeline.streams["raw"].promise is Promise.NO_DUPLICATES
    assert pipeline.streams["out"].buffer == Records(3)
    job = pipeline.jobs["j"]
    assert job.window == Window(of=Duration.parse("10 s"))
    assert job.inputs[1].alias == "o"
    assert job.overload is not None
    assert str(job.overload.after) == "1 min"


def test_every_problem_is_told_at_once(loads: Loads) -> None:
    loaded = loads("""
pipeline: p
sitess: {}
sites: {n: {broker: kafkaa}}
streams: {raw: {partitions: many}}
jobs: {j: {form: raw, sql: 5}}
""")
    assert [(item.code, item.at.line if item.at else 0) for item in loaded.diagnostics] == [
        ("unknown-key", 3),
        ("unknown-kind", 4),
        ("wrong-type", 5),
        ("unknown-key", 6),
        ("wrong-type", 6),
    ]
    assert [item.nearest for item in loaded.diagnostics] == ["sites", "kafka", "", "from", ""]


def test_where_values_came_from_is_kept(loads: Loads) -> None:
    loaded = loads(BASE + "defaults: {streams: {partitions: 2}, jobs: {replicas: 3}}", trace=True)
    origin = loaded.origins["streams.raw.partitions"]
    assert (origin.value, origin.origin) == (2, "defaults")
    assert loaded.origins["streams.raw.format"].origin == "built-in"
    assert loaded.origins["jobs.clean.sql"].origin == ""


def test_a_text_can_not_include(loads: Loads) -> None:
    assert only(load_text(BASE + "include: a.yaml")).code == "include"


def test_required_raises_with_every_problem() -> None:
    with pytest.raises(SpecError, match="the pipeline has no name") as caught:
        load_text("streams: {a: {}}").required()
    assert len(caught.value.diagnostics) == 2
    assert load_text(BASE).required().name == "p"


def test_what_an_expression_comes_to_is_not_worked_out_again(loads: Loads) -> None:
    text = BASE.replace("{raw: {}", "{raw: {key: '${{ a }}'}") + "constants: {a: '$${{ nope }}'}"
    assert valid(loads(text)).streams["raw"].key == ("${{ nope }}",)
