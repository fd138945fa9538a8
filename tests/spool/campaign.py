"""Kills a writer again and again, while another process reads; run as a program by the tests.

`python -m tests.spool.campaign FOLDER SEED KILLS [PLACE]`. Writers are forked: a kill costs
milliseconds. With a PLACE (a failpoint) they end there by themselves. Says what it saw as JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from millrace.errors import OperationFailed
from millrace.ports import Record
from millrace.spool import SpoolReader, SpoolWriter

LIMIT = 20.0
SEGMENT = 20_000
END = struct.Struct("<Q")


def record(position: int) -> Record:
    """The record of a position: its value can be known, and its size is its own."""
    text = b"%d " % position
    return Record(text * (1 + position % 37), key=text, time=position)


def check(folder: Path, start: int, until: int) -> None:
    """See that positions hold their records, each once, in order, all of them."""
    expected = start
    for found in SpoolReader(folder).read(start, until):
        wanted = record(expected)
        assert found.position == expected, f"{found.position} came instead of {expected}"
        assert (found.value, found.key, found.time) == (wanted.value, wanted.key, wanted.time)
        expected += 1
    assert expected == until, f"{until} was the end, and {expected} was reached"


def write(folder: Path, seed: int, report: int) -> None:
    """Append numbered records until killed; tell the end after each commit; sometimes trim."""
    parent = os.getppid()
    random_ = random.Random(seed)
    writer = SpoolWriter(folder, segment_bytes=SEGMENT)
    position, commits = writer.end, 0
    os.write(report, END.pack(position))
    while os.getppid() == parent:
        count = random_.randrange(1, 60)
        writer.append(record(number) for number in range(position, position + count))
        if random_.random() < 0.2:
            writer.append([record(position + count)])
            count += 1
        position, commits = position + count, commits + 1
        assert writer.commit() == position
        os.write(report, END.pack(position))
        if commits % 5 == 0:
            writer.trim(position - random_.randrange(300))


def read(folder: Path, seen: mmap.mmap) -> None:
    """Read what is there until killed; tell the furthest end that was seen."""
    parent, end, reads = os.getppid(), 0, 0
    while os.getppid() == parent:
        span = SpoolReader(folder).span()
        assert span.end >= end, f"the end went back from {end} to {span.end}"
        try:
            check(folder, max(end, span.first), span.end)
        except OperationFailed as failure:
            if failure.code != "spool-gone":
                raise
        end, reads = span.end, reads + 1
        seen[:16] = END.pack(end) + END.pack(reads)


def forked(work: Callable[[], None]) -> int:
    """Start a process that does some work until it is killed, or we end."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()
        finally:
            os._exit(3)
    return pid


@dataclass
class Round:
    """What was seen of one writer."""

    reported: int
    seen: int
    end: int
    status: int


def one_round(folder: Path, random_: random.Random, seen: mmap.mmap, place: str) -> Round:
    """Let a writer write, kill it, and look at what is there."""
    out, report = os.pipe()
    seed = random_.randrange(1 << 30)
    if place:
        os.environ["MILLRACE_FAILPOINT"] = f"{place}#{random_.randrange(1, 8)}"
    pid = forked(lambda: write(folder, seed, report))
    os.close(report)
    told = b""
    stop = 0 if place else random_.randrange(12)
    until = time.monotonic() + LIMIT
    while place or len(told) < stop * END.size:
        assert select.select([out], [], [], until - time.monotonic())[0], "nothing was reported"
        more = os.read(out, 4096)
        if not more:
            break
        told += more
    if not place:
        time.sleep(random_.random() * 0.002)  # anywhere in what it does now
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    while more := os.read(out, 4096):
        told += more
    os.close(out)
    reported = END.unpack(told[-END.size :])[0] if told else 0
    shown = SpoolReader(folder).span().end
    os.environ.pop("MILLRACE_FAILPOINT", None)
    writer = SpoolWriter(folder, segment_bytes=SEGMENT)
    found = Round(reported, END.unpack(seen[:8])[0], writer.end, os.waitstatus_to_exitcode(status))
    writer.close()
    assert found.status == -signal.SIGKILL, "the writer ended by itself"
    assert found.end >= found.reported, "what was reported is lost"
    assert found.end >= found.seen, "a reader saw what was not durable"
    if place:
        assert shown == reported, "a reader may see what was not committed"
    check(folder, SpoolReader(folder).span().first, found.end)
    return found


def main() -> None:
    """Run the campaign; raises where a promise is broken."""
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    place = sys.argv[4] if len(sys.argv) > 4 else ""
    random_ = random.Random(seed)
    with mmap.mmap(-1, 4096) as seen:
        reader = forked(lambda: read(folder, seen))
        rounds = [one_round(folder, random_, seen, place) for _ in range(kills)]
        ended = os.waitpid(reader, os.WNOHANG)
        assert ended == (0, 0), "the reader found something wrong"
        os.kill(reader, signal.SIGKILL)
        os.waitpid(reader, 0)
        reads = END.unpack(seen[8:16])[0]
    span = SpoolReader(folder).span()
    found = {
        "rounds": [asdict(one) for one in rounds],
        "reads": reads,
        "first": span.first,
        "end": span.end,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
