"""Steps of a computation: the same number however often the garbage collector runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.step_count import count_steps


@pytest.fixture
def eager_collector() -> Iterator[list[str]]:
    """Collect after each new container, and call back in Python, as Hypothesis does."""
    phases: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        del info
        phases.append(phase)

    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        yield phases
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(note)


def allocate() -> list[list[int]]:
    return [[number] for number in range(50)]


def test_a_collection_of_garbage_adds_no_steps(eager_collector: list[str]) -> None:
    allocate()
    assert eager_collector, "the collector is not eager"
    first = count_steps(allocate)
    gc.set_threshold(100_000)
    assert count_steps(allocate) == first


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was(is_enabled: bool) -> None:
    if not is_enabled:
        gc.disable()
    try:
        count_steps(allocate)
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()
