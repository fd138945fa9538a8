"""Messages between two processes: whole, in order, and never in vain."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engines.spark.channel import Channel, Message

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    yield one, other
    one.close()
    other.close()


@given(st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=5))
def test_what_is_sent_arrives(messages: list[Message]) -> None:
    one, other = socket.socketpair()
    sender, receiver = Channel(one), Channel(other)
    assert all(sender.send(message) for message in messages)
    sender.close()
    assert list(receiver.messages()) == messages
    receiver.close()


def test_a_cut_last_line_is_left_out(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(b'{"a": 1}\n{"b": ')
    ends[0].close()
    assert list(Channel(ends[1]).messages()) == [{"a": 1}]


def test_many_threads_send_whole_messages(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = Channel(ends[0]), Channel(ends[1])
    pad = "x" * 50_000  # more than a socket takes at once

    def send(thread: int) -> None:
        for number in range(20):
            assert sender.send({"thread": thread, "number": number, "pad": pad})

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    seen: dict[int, list[int]] = {number: [] for number in range(8)}
    messages = receiver.messages()
    for _ in range(160):
        message = next(messages)
        assert message["pad"] == pad
        seen[message["thread"]].append(message["number"])
    for thread in threads:
        thread.join(10)
    assert seen == {number: list(range(20)) for number in range(8)}


def test_a_side_that_is_gone_is_told(ends: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = Channel(ends[0]), Channel(ends[1])
    receiver.close()
    assert not sender.send({"pad": "x" * 1_000_000})
    assert list(sender.messages()) == []


def test_close_ends_a_reader_that_waits(ends: tuple[socket.socket, socket.socket]) -> None:
    waiting = Channel(ends[0])
    seen: list[Message] = []
    thread = threading.Thread(target=lambda: seen.extend(waiting.messages()))
    thread.start()
    Channel(ends[1]).send({"a": 1})
    waiting.close()
    thread.join(10)
    assert not thread.is_alive()
