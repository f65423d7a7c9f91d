"""Ports that stay free until the program listens that they are meant for."""

import socket
import subprocess
import sys

import pytest

from kais_cluster.host import ports


def test_ports_are_free_and_differ():
    first, second = ports.free_ports(2)
    assert first != second
    for port in (first, second):
        with socket.create_server(("127.0.0.1", port)):
            assert 20000 <= port < 30000


def test_port_is_reserved_against_this_process_and_others(monkeypatch):
    (port,) = ports.free_ports(1)
    monkeypatch.setattr(ports, "_RANGE", range(port, port + 1))
    with pytest.raises(OSError, match=f"no 1 free ports between {port} and {port}"):
        ports.free_ports(1)
    script = (
        f"from kais_cluster.host import ports; ports._RANGE = range({port}, {port + 1});"
        "print(ports.free_ports(1))"
    )
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert other.returncode == 1
    assert "OSError: there are no 1 free ports" in other.stderr


def test_port_where_somebody_listens_is_not_given_out(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "_RANGE", range(port, port + 1))
        with pytest.raises(OSError, match="free ports"):
            ports.free_ports(1)
