"""The event loops of the operator's tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.fakes.simulated_time import SimulatedTimeLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("simulated_time"):
        return {"simulated": SimulatedTimeLoop}
    return {"system": asyncio.new_event_loop}
