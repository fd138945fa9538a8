"""How fast a spool takes records durably, and gives them back: `python -m bench.spool`.

Beside it the same bytes are written with a plain `write` and `fdatasync` per commit: what the disk
allows. A second process reads while the first one writes, as a receiver and Spark do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.streams.results import Bar, Part, median
from millrace.ports import Record
from millrace.spool import SpoolReader, SpoolWriter

LEAST = 50_000
VALUE = 1_000
#: No wait in this benchmark may take longer, in seconds.
LIMIT = 300.0


@dataclass(frozen=True, slots=True)
class Setting:
    """Sizes and counts."""

    runs: int = 5
    records: int = 200_000
    groups: tuple[int, ...] = (200, 500, 1_000)
    out: Path = Path("build/bench")
    #: Where the spools are: a disk, not memory.
    place: Path = Path("build/bench")


def records(start: int, count: int) -> list[Record]:
    """Records of a kilobyte, as a receiver makes them: no two are the same."""
    return [
        Record(b"%08d" % number + bytes(VALUE - 8), time=number)
        for number in range(start, start + count)
    ]


def timed(work: Callable[[], object], count: int) -> float:
    """Return how many records a second something handles."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def written(folder: Path, given: list[list[Record]]) -> None:
    """Append and commit group by group."""
    writer = SpoolWriter(folder)
    for group in given:
        writer.append(group)
        writer.commit()
    writer.close()


def plainly(file: Path, given: list[list[Record]]) -> None:
    """Write the same groups with nothing around the values."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    for group in given:
        os.write(descriptor, b"".join(record.value or b"" for record in group))
        os.fdatasync(descriptor)
    os.close(descriptor)


def exhaust(items: Iterable[object], count: int) -> None:
    """Take all; there must be so many."""
    found = sum(1 for _ in items)
    if found != count:
        message = f"{found} records came, not {count}"
        raise RuntimeError(message)


def one_run(setting: Setting, group: int) -> dict[str, Any]:
    """Write and read once, with commits of so many records."""
    count = setting.records
    given = [records(start, group) for start in range(0, count, group)]
    with folder_in(setting.place) as folder:
        spool = folder / "spool"
        reader = SpoolReader(spool)
        plain = timed(lambda: plainly(folder / "plain", given), count)
        write = timed(lambda: written(spool, given), count)
        recover = 1 / timed(lambda: SpoolWriter(spool).close(), 1)
        read = timed(lambda: exhaust(reader.read(0), count), count)
        values = timed(lambda: exhaust(reader.values(0), count), count)
        jump = 1 / timed(lambda: next(reader.read(count - 5)), 1)
        found = 1 / timed(lambda: reader.since(count // 2), 1)
        both = beside(folder / "beside", given, count)
    return {
        "group": group, "plain": plain, "write": write, "read": read, "values": values,
        "beside": both, "recover_ms": recover * 1000, "jump_ms": jump * 1000,
        "since_ms": found * 1000,
    }  # fmt: skip


@contextmanager
def folder_in(place: Path) -> Iterator[Path]:
    """A folder for a while."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield Path(folder)


def beside(spool: Path, given: list[list[Record]], count: int) -> float:
    """Write while another process reads to the same end; records a second through both."""
    command = [sys.executable, "-m", "bench.spool", "--follow", str(spool), "--records", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        if reader.stdout is None or reader.stdout.readline() != b"ready\n":
            message = "the reader did not begin"
            raise RuntimeError(message)

        def through() -> None:
            written(spool, given)
            if reader.wait(LIMIT) != 0:
                message = "the reader did not come to the end"
                raise RuntimeError(message)

        return timed(through, count)


def follow(spool: Path, count: int) -> None:
    """Read what comes until so many records came, looking again every millisecond."""
    print("ready", flush=True)
    reader, position, until = SpoolReader(spool), 0, time.monotonic() + LIMIT
    while position < count and time.monotonic() < until:
        end = reader.span().end
        if end == position:
            time.sleep(0.001)
            continue
        exhaust(reader.values(position, end), end - position)
        position = end
    if position != count:
        sys.exit(1)


class SpoolPart(Part):
    """This part, in a file of its own name."""

    def document(self) -> dict[str, Any]:
        """Return all as plain data."""
        found = super().document()
        del found["design"]
        return found

    def write(self, folder: Path) -> Path:
        """Write the figures into a folder and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "spool.json"
        file.write_text(json.dumps(self.document(), indent=2) + "\n")
        return file


def measure(setting: Setting) -> SpoolPart:
    """Measure every size of commit, by turns, and take the medians."""
    part, before = SpoolPart("spool"), os.getloadavg()[0]
    for number in range(setting.runs):
        for group in setting.groups:
            run = one_run(setting, group)
            part.runs.append({"round": number, **run})
            print(f"  .. {number} {group} {run['write']:,.0f}/s", file=sys.stderr, flush=True)
    for group in setting.groups:
        runs = [run for run in part.runs if run["group"] == group]
        part.rows[f"commits of {group}"] = {
            name: median([run[name] for run in runs]) for name in runs[0] if name not in _NOT_SHOWN
        }
    part.bars += list(judged(part))
    part.notes += [
        f"records/s of {VALUE} bytes; `plain` is write and fdatasync of the same bytes, "
        "`beside` is with another process reading along",
        f"load of the machine before {before:.1f}, after {os.getloadavg()[0]:.1f}",
    ]
    return part


_NOT_SHOWN = ("round", "group")


def judged(part: Part) -> Iterator[Bar]:
    """Say what must be reached, for every size of commit."""
    for name, row in part.rows.items():
        for what, column in (("written durably", "write"), ("read", "read"), ("both", "beside")):
            yield Bar(f"{name}: {what}, records/s", row[column], LEAST, at_most=False)


def main() -> int:
    """Measure, print and write down; 1 when a bar is missed."""
    usual = Setting()
    parser = argparse.ArgumentParser(prog="python -m bench.spool", description=__doc__)
    parser.add_argument("part", nargs="?", default="spool", choices=["spool", "all"])
    parser.add_argument("--runs", type=int, default=usual.runs)
    parser.add_argument("--records", type=int, default=usual.records)
    parser.add_argument("--out", type=Path, default=usual.out, help="for the figures")
    parser.add_argument("--place", type=Path, default=usual.place, help="a folder on the disk")
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.follow:
        follow(arguments.follow, arguments.records)
        return 0
    part = measure(
        Setting(arguments.runs, arguments.records, out=arguments.out, place=arguments.place)
    )
    part.show()
    print(f"  figures in {part.write(arguments.out)}")
    return 1 if any(not bar.met for bar in part.bars) else 0


if __name__ == "__main__":
    sys.exit(main())
