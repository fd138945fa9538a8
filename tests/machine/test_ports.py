"""Ports from the operating system."""

from __future__ import annotations

import socket

from millrace.machine import free_ports


def test_free_ports_are_free_and_differ() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_the_wanted_ones_are_given_where_they_are_free() -> None:
    wanted = tuple(free_ports(2))
    assert free_ports(3, wanted)[:2] == list(wanted)


def test_others_are_given_for_those_that_are_taken() -> None:
    one, two = free_ports(2)
    for host in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - a listener of anybody
        with socket.create_server((host, one)):
            first, second = free_ports(2, (one, two))
        assert first not in {one, two}
        assert second == two


def test_a_port_that_is_wanted_twice_is_given_once() -> None:
    [port] = free_ports(1)
    first, second = free_ports(2, (port, port))
    assert first == port
    assert second != port
