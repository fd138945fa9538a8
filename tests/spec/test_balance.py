from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.spec import load_text
from millrace.spec.balance import solve
from millrace.spec.occupancy import Channel, Firing, Network, run


def flow(*jobs: str, streams: str = "", **more: str) -> str:
    """Return a pipeline of jobs written as `name: [a/2 b] -> [c/3]`, with rates behind slashes."""
    lines, used = [], {}
    for job in jobs:
        name, rest = job.split(": ")
        sides = [side.strip("[] ").split() for side in rest.split("->")]
        ports = []
        for key, rate, side in (("from", "consumes", sides[0]), ("to", "produces", sides[1])):
            items = []
            for port in side:
                stream, _, number = port.partition("/")
                used[stream] = "{}"
                items.append(
                    f"{{stream: {stream}" + (f", {rate}: {number}" if number else "") + "}"
                )
            ports.append(f"{key}: [{', '.join(items)}]")
        lines.append(f"  {name}: {{{', '.join(ports)}, process: run{more.get(name, '')}}}")
    declared = streams or "{" + ", ".join(f"{name}: {{}}" for name in used) + "}"
    return (
        f"pipeline: p\nsites: {{n: {{engine: process, broker: kafka}}}}\n"
        f"streams: {declared}\njobs:\n" + "\n".join(lines)
    )


def told(text: str) -> list[tuple[str, str]]:
    return [(item.code, item.message) for item in load_text(text).diagnostics]


def test_a_chain_balances_with_the_least_buffers() -> None:
    pipeline = load_text(flow("a: [] -> [x/3]", "b: [x/2] -> [y/1]", "c: [y/3] -> []")).required()
    balance = solve(pipeline)
    assert dict(balance.firings) == {"a": 2, "b": 3, "c": 1}
    assert dict(balance.buffers) == {"x": 4, "y": 3}  # x: 3 + 2 - gcd(3, 2)


def test_no_rates_no_equations() -> None:
    pipeline = load_text(flow("a: [] -> [x]", "b: [x] -> []")).required()
    assert dict(solve(pipeline).buffers) == {}
    half = load_text(flow("a: [] -> [x]", "b: [x/2] -> [y/1]", "c: [y/1] -> []")).required()
    assert dict(solve(half).buffers) == {"y": 1}


def test_a_diamond_that_disagrees_names_the_job_and_shows_a_trace() -> None:
    text = flow(
        "a: [] -> [x/1 y/2]", "b: [x/1] -> [u/1]", "c: [y/1] -> [v/1]", "d: [u/1 v/1] -> []"
    )
    item = load_text(text, "f").diagnostics[0]
    assert item.code == "imbalance"
    assert "'d'" in item.message
    assert "pile up in v" in item.message
    assert "u starves" in item.message
    assert "1, 2, 3 records wait in v" in item.found
    assert str(item.at) == "f:8:13"


def test_a_diamond_that_agrees_has_buffers_for_its_skew() -> None:
    text = flow(
        "a: [] -> [x/1 y/2]", "b: [x/1] -> [u/2]", "c: [y/1] -> [v/1]", "d: [u/2 v/2] -> []"
    )
    pipeline = load_text(text).required()
    balance = solve(pipeline)
    assert dict(balance.firings) == {"a": 1, "b": 1, "c": 2, "d": 1}
    assert balance.buffers["v"] == 2


def test_clocks_and_rates_of_outside_streams_are_part_of_it() -> None:
    text = flow("a: [x/10] -> [y/1]", "b: [y/1] -> []", streams="{x: {rate: 100/s}, y: {}}")
    assert told(text) == []
    fast = flow("a: [x/10] -> []", streams="{x: {rate: 100/s}}", a=", every: 1 s")
    assert "pile up in x" in told(fast)[0][1]
    slow = flow("a: [x/10] -> []", streams="{x: {rate: 5/s}}", a=", every: 1 s")
    assert "its clock fires too often" in told(slow)[0][1]
    assert "x starves" in told(slow)[0][1]
    even = load_text(
        flow("w: [] -> [x/1]", "a: [x/10] -> []", w=", every: 100 ms", a=", every: 1 s")
    ).required()
    assert solve(even).buffers["x"] == 20  # any phase of two clocks


def test_several_writers_add_up() -> None:
    text = flow("a: [] -> [x/1]", "b: [] -> [x/2]", "c: [x/3] -> []")
    balance = solve(load_text(text).required())
    assert dict(balance.firings) == {"a": 1, "b": 1, "c": 1}
    tied = flow(
        "s: [] -> [p/1 q/1]", "a: [p/1] -> [x/1]", "b: [q/1] -> [x/2 z/1]", "c: [x/3 z/1] -> []"
    )
    assert told(tied) == []
    assert "pile up in x" in told(tied.replace("consumes: 3", "consumes: 2"))[0][1]


def test_independent_sources_are_tied_by_a_join() -> None:
    text = flow("a: [] -> [x/2]", "b: [] -> [y/3]", "c: [x/1 y/1] -> []")
    balance = solve(load_text(text).required())
    assert dict(balance.firings) == {"a": 3, "b": 2, "c": 6}


def test_a_buffer_that_is_too_small_is_shown_with_its_way_there() -> None:
    text = flow("a: [] -> [x/3]", "b: [x/2] -> []", streams="{x: {buffer: 3}}")
    item = load_text(text, "f").diagnostics[0]
    assert item.code == "buffer-too-small"
    assert "a needs room for 3 in x, which holds 1 of 3" in item.message
    assert "4 records or more" in item.hint
    assert "2. b fires: x holds 1" in item.found
    assert told(text.replace("buffer: 3", "buffer: 4")) == []


def test_long_rounds_are_bounded_by_arithmetic() -> None:
    text = flow("a: [] -> [x/1000003]", "b: [x/999983] -> []")
    balance = solve(load_text(text).required())
    assert balance.buffers["x"] == 1000003 * 999983
    small = flow("a: [] -> [x/1000003]", "b: [x/999983] -> []", streams="{x: {buffer: 9}}")
    assert told(small) == [
        (
            "buffer-too-small",
            "with these buffers nothing can move: x must hold 1999985 at times, and holds 9",
        )
    ]
    between = load_text(small.replace("buffer: 9", "buffer: 2000000")).required()
    assert dict(solve(between).buffers) == {}  # neither proven nor refuted


@settings(max_examples=200)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**16))
def test_in_the_buffers_that_suffice_no_order_gets_stuck(made: int, taken: int, seed: int) -> None:
    """Play rounds in random orders with the buffers as limits: the end is always reached."""
    pipeline = load_text(
        flow(
            f"a: [] -> [x/{made} y/1]", f"b: [x/{taken}] -> [z/1]", f"c: [y/{taken} z/{made}] -> []"
        )
    ).required()
    balance = solve(pipeline)
    held = {"x": 0, "y": 0, "z": 0}
    reads = {"a": {}, "b": {"x": taken}, "c": {"y": taken, "z": made}}
    writes = {"a": {"x": made, "y": 1}, "b": {"z": 1}, "c": {}}
    left = {name: 2 * times for name, times in balance.firings.items()}
    chance = random.Random(seed)
    while any(left.values()):
        ready = [
            name
            for name in left
            if left[name]
            and all(held[s] >= n for s, n in reads[name].items())
            and all(held[s] + n <= balance.buffers[s] for s, n in writes[name].items())
        ]
        assert ready, (made, taken, held, left)
        name = chance.choice(ready)
        left[name] -= 1
        for stream, number in reads[name].items():
            held[stream] -= number
        for stream, number in writes[name].items():
            held[stream] += number
    assert not any(held.values())


@pytest.mark.parametrize("capacity", [None, 6])
def test_a_round_of_a_long_chain_is_quick(capacity: int | None) -> None:
    jobs = [f"j{number}" for number in range(2000)]
    channels = tuple(
        Channel(f"s{n}", ((jobs[n], 2),), jobs[n + 1], 2, capacity) for n in range(1999)
    )
    occupancy = run(Network(tuple(Firing(job, 10) for job in jobs), channels))
    assert set(occupancy.peaks.values()) == {2}
