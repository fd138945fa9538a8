from __future__ import annotations

from millrace.cli.views.diagnostics import diagnostics_text
from millrace.errors import Diagnostic, Location, Problems, Severity, nearest


def test_near_names_are_found_and_far_ones_are_not() -> None:
    assert nearest("partitons", ["partitions", "port"]) == "partitions"
    assert nearest("Nroth", ["north", "south"]) == "north"
    assert nearest("zebra", ["north"]) == ""
    assert nearest("x" * 500, ["x" * 499]) == ""


def test_a_problem_is_kept_once() -> None:
    problems = Problems()
    for _ in range(3):
        problems.error("a", "b", Location("f"))
    assert len(list(problems)) == 1
    assert problems.failed


def test_warnings_do_not_fail() -> None:
    problems = Problems()
    problems.add(Diagnostic("a", "b", severity=Severity.WARNING))
    assert not problems.failed


def text(diagnostic: Diagnostic, source: str) -> str:
    return diagnostics_text([diagnostic], {"f": source}).plain


def test_long_lines_are_cut_around_the_place() -> None:
    shown = text(Diagnostic("a", "b", Location("f", 1, 500)), "x" * 498 + " bad " + "y" * 500)
    line = next(row for row in shown.splitlines() if "bad" in row)
    mark = shown.splitlines()[shown.splitlines().index(line) + 1]
    assert len(line) < 120
    assert line[mark.index("^") :].startswith("bad")


def test_tabs_and_invisible_characters_keep_the_mark_in_place() -> None:
    shown = text(Diagnostic("a", "b", Location("f", 1, 3)), "\t\x07bad")
    assert "\x07" not in shown
    assert "| \t ^^^" in shown


def test_places_beyond_the_text_show_no_line() -> None:
    assert " | " not in text(Diagnostic("a", "b", Location("f", 9, 1)), "x")
    assert "-->" not in text(Diagnostic("a", "b"), "x")
    assert diagnostics_text([], {}).plain == ""


def test_details_say_what_the_message_does_not() -> None:
    item = Diagnostic("a", "b", found="it", expected="that", nearest="them", hint="do so")
    shown = text(item, "")
    for part in ("found: it", "expected: that", "nearest: them", "help: do so"):
        assert part in shown
    assert diagnostics_text([item], {}, left_out=3).plain.endswith("3 more that are not shown\n")
