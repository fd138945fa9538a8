"""Server-sent events: as the standard says, however their bytes are cut."""

from __future__ import annotations

import pytest

from millrace.errors import OperationFailed
from millrace.machine.sse import Decoder


def fed(decoder: Decoder, pieces: list[bytes]) -> list[tuple[str, str | None, str]]:
    return [event for piece in pieces for event in decoder.feed(piece)]


def test_events_are_decoded_however_they_are_cut() -> None:
    text = (
        "event: a\r\nid: 1\r\ndata: x\u2028y\x85\r\ndata:z\r\n\r\n: note\n\ndata: 2\rid: 5\r\r"
        "event: empty\n\nid: 9\ndata\n\n"
    )
    expected = [("a", "1", "x\u2028y\x85\nz"), ("message", "5", "2"), ("message", "9", "")]
    data = text.encode()
    for size in (1, 2, 3, 7, len(data)):
        decoder = Decoder()
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert fed(decoder, pieces) == expected


def test_an_event_without_end_is_refused() -> None:
    decoder = Decoder()
    pieces = [b"x" * 100_000] * 100
    with pytest.raises(OperationFailed, match="more than"):
        fed(decoder, pieces)
    decoder = Decoder()
    pieces = [b"data: " + b"x" * 100_000 + b"\n"] * 100
    with pytest.raises(OperationFailed, match="more than"):
        fed(decoder, pieces)
