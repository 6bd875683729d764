"""Ports for groups, and the address that others see."""

import socket

from xmcloud.worker.ports import FreePorts, own_address


def test_ports_are_free_and_different() -> None:
    ports = FreePorts()
    found = [port for _ in range(10) for port in ports.some(8)]
    assert len(set(found)) == 80
    with socket.socket() as listener:
        listener.bind(("", found[0]))


def test_a_claim_names_at_most_64() -> None:
    assert len(FreePorts().some(1000)) == 64


def test_a_control_plane_on_this_machine_has_workers_on_loopback() -> None:
    assert own_address("http://127.0.0.1:8080") == "127.0.0.1"
    assert own_address("http://localhost") == "127.0.0.1"


def test_the_address_is_that_of_the_way_to_the_control_plane() -> None:
    assert own_address("http://127.0.0.2:8080") == "127.0.0.1"


def test_without_a_way_there_is_no_address() -> None:
    assert own_address("http://control-plane.invalid") == ""
