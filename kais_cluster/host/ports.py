"""Reserves ports for servers that start a moment later, while other processes look for ports.

The kernel assigns ports from 32768 on to connections and to servers that listen on port 0, so such
a port can be taken before the server listens. The ports here are below that range and below the
NodePorts of Kubernetes. No other process that uses this module gets the same port.
"""

import random
import socket

_RANGE = range(20000, 30000)


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address that are free now, reserved for this process.

    The reservation ends with the process, so a program that it started must listen by then.

    Raises:
        OSError: There are not enough free ports.
    """
    ports: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(ports) == count:
            return ports
        if _is_free(port) and _reserve(port):
            ports.append(port)
    raise OSError(f"there are no {count} free ports between {_RANGE.start} and {_RANGE.stop - 1}")


def _reserve(port: int) -> bool:
    """Bind an abstract socket named for the port; the kernel removes it when this process ends."""
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0kais-port-{port}")
    except OSError:
        reservation.close()
        return False
    reservation.detach()  # it stays open until the process ends
    return True


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False
