"""The local port of a port-forward, which another process may take before it is bound."""

import asyncio
import errno

import pytest

from kais_cli.cluster.port_forward import open_forward


class Forwarding:
    """A port-forward that binds a port, or fails to."""

    def __init__(self, outcome: int | OSError) -> None:
        self._outcome = outcome

    async def __aenter__(self) -> int:
        if isinstance(self._outcome, OSError):
            raise self._outcome
        return self._outcome


ADDRESS_IN_USE = OSError(errno.EADDRINUSE, "address already in use")


def test_a_port_that_another_process_took_is_replaced_by_another() -> None:
    outcomes = iter([ADDRESS_IN_USE, ADDRESS_IN_USE, 38475])
    _, port = asyncio.run(open_forward(lambda: Forwarding(next(outcomes))))
    assert port == 38475


def test_ports_that_are_always_taken_end_in_the_error() -> None:
    with pytest.raises(OSError, match="address already in use"):
        asyncio.run(open_forward(lambda: Forwarding(ADDRESS_IN_USE)))


def test_another_error_is_not_tried_again() -> None:
    outcomes = iter([OSError(errno.ECONNREFUSED, "refused"), 1])
    with pytest.raises(OSError, match="refused"):
        asyncio.run(open_forward(lambda: Forwarding(next(outcomes))))
    assert next(outcomes) == 1
