"""Campaigns: the order of runs, what is kept, going on, failures, Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import OperationFailed
from millrace.experiment.campaign import Campaign, Outcome
from millrace.experiment.declaration import Cell, Declaration
from millrace.experiment.matrix import by_setup, runs
from millrace.experiment.port import Around, Measuring
from millrace.experiment.results import FILE, append, read
from tests.experiment.toys import DECLARED, Toy


def perform(
    toy: Toy, folder: Path, *, resume: bool = False, said: list[str] | None = None
) -> Outcome:
    say = (said if said is not None else []).append
    return Campaign(toy, toy.declared, folder, say, Event(), ["millrace", "x"], resume).perform()


def ran(toy: Toy) -> list[str]:
    return [line.removeprefix("run ") for line in toy.log if line.startswith("run ")]


def test_runs_of_a_set_up_share_what_was_started(tmp_path: Path) -> None:
    toy, said = Toy(), list[str]()
    outcome = perform(toy, tmp_path, said=said)
    assert toy.log == [
        "open a", *(f"run a{size} {seed}" for seed in (5, 6) for size in (1, 2, 3)), "close a",
        "open b", *(f"run b{size} {seed}" for seed in (5, 6) for size in (1, 2, 3)), "close b",
    ]  # fmt: skip
    assert len(outcome.results) == 12
    assert not outcome.failed
    assert any("[12/12] kind=b size=3, seed 6; about" in line for line in said)


def test_a_line_says_what_a_figure_depends_on(tmp_path: Path) -> None:
    perform(Toy(), tmp_path)
    line = json.loads((tmp_path / FILE).read_text().splitlines()[0])
    assert line["cell"] == {"kind": "a", "size": 1}
    assert (line["repeat"], line["seed"], line["values"]) == (0, 5, {"time": 1.0})
    assert line["machine"].keys() >= {"cores", "memory_gb", "kernel", "load"}
    assert line["versions"].keys() >= {"python", "millrace", "kafka"}
    assert line["command"] == ["millrace", "x"]
    assert line["started"].endswith("+00:00")
    assert line["seconds"] >= 0


def test_warm_up_runs_do_not_count(tmp_path: Path) -> None:
    toy = Toy(replace(DECLARED, warmup=2, repeats=1, matrix={"kind": ("a",), "size": (1, 2)}))
    outcome = perform(toy, tmp_path)
    assert ran(toy) == ["a2 5", "a2 5", "a1 5", "a2 5"]
    assert len(outcome.results) == 2


def test_what_is_there_is_left_out(tmp_path: Path) -> None:
    toy = Toy(stops_after=4)
    first = perform(toy, tmp_path)
    assert first.stopped
    assert len(first.results) == 4
    assert toy.log[-1] == "close a"  # all that was started is ended
    again = Toy()
    second = perform(again, tmp_path, resume=True)
    assert ran(again)[0] == "a2 6"
    assert len(ran(again)) == 8
    assert len(second.results) == 12
    assert not second.stopped


def test_results_are_not_mixed_by_accident(tmp_path: Path) -> None:
    perform(Toy(), tmp_path)
    toy = Toy()
    with pytest.raises(OperationFailed, match="holds 12 results"):
        perform(toy, tmp_path)
    assert toy.log == []


def test_a_run_that_fails_is_noted_and_tried_again(tmp_path: Path) -> None:
    toy = Toy(fails={("a", 2, 5)})
    outcome = perform(toy, tmp_path)
    assert outcome.failed == 1
    assert toy.log.count("open a") == 2  # the rest gets a new set-up
    assert [r.error for r in outcome.results if r.error] == ["it broke"]
    again = Toy()
    assert perform(again, tmp_path, resume=True).failed == 0
    assert ran(again) == ["a2 5"]


def test_what_cannot_be_started_fails_its_runs(tmp_path: Path) -> None:
    class Broken(Toy):
        @contextmanager
        def opened(self, cell: Cell, around: Around) -> Iterator[Measuring]:
            if around.folder.is_dir():
                raise OperationFailed("toy", f"no power for {cell}")
            yield lambda _: {}

    toy = Broken(replace(DECLARED, repeats=1, matrix={"kind": ("a",), "size": (1, 2)}))
    assert perform(toy, tmp_path).failed == 2


def test_a_line_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    perform(Toy(), tmp_path)
    text = (tmp_path / FILE).read_text()
    (tmp_path / FILE).write_text(text[:-40])
    toy = Toy()
    assert len(perform(toy, tmp_path, resume=True).results) == 12
    assert ran(toy) == ["b3 6"]
    assert len(read(tmp_path)) == 12


def test_lines_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"what": "ever"}\n')
    with pytest.raises(OperationFailed, match="line 1"):
        perform(Toy(), tmp_path, resume=True)


def test_the_last_line_of_a_run_counts(tmp_path: Path) -> None:
    perform(Toy(), tmp_path)
    first = read(tmp_path)[0]
    append(tmp_path, replace(first, values={"time": 9.0}))
    assert [r.values["time"] for r in read(tmp_path) if r.key == first.key] == [9.0]


@given(
    factors=st.dictionaries(
        st.sampled_from("abcd"),
        st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).map(tuple),
        min_size=1,
    ),
    repeats=st.integers(1, 3),
    data=st.data(),
)
def test_each_run_comes_once_and_each_set_up_once(
    factors: dict[str, tuple[int, ...]], repeats: int, data: st.DataObject
) -> None:
    setup = tuple(data.draw(st.lists(st.sampled_from(sorted(factors)), unique=True)))
    declared = replace(DECLARED, matrix=dict(factors), setup=setup, repeats=repeats)
    every = runs(declared)
    count = repeats
    for values in factors.values():
        count *= len(values)
    assert len(every) == len({run.key for run in every}) == count
    groups = by_setup(every, declared)
    chosen = [tuple(group[0].cell[factor] for factor in setup) for group in groups]
    assert len(chosen) == len(set(chosen))
    assert _joined(groups) == every


def _joined(groups: Sequence[Sequence[object]]) -> list[object]:
    return [run for group in groups for run in group]


def test_other_values_are_taken(tmp_path: Path) -> None:
    declared: Declaration = DECLARED.quickened().with_values({"kind": ("b",)})
    toy = Toy(replace(declared, seed=0))
    perform(toy, tmp_path)
    assert ran(toy) == ["b1 0"]
