"""Patterns of checks are looked for in a process that can be killed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kais_operator import errors
from kais_operator.rendering.renderer import WorkerRenderer
from kais_rendering.worker_pool import RenderPool

MIN_TURNS = 3
"""Turns of the loop during a search of 0.5 s; one that blocks the loop leaves a single turn."""


@pytest.fixture
async def renderer() -> AsyncIterator[WorkerRenderer]:
    created = WorkerRenderer(RenderPool(workers=1, limit_s=0.5, memory_mib=64))
    yield created
    await created.close()


@pytest.mark.parametrize(
    ("pattern", "text", "ignore_case", "found"),
    [
        ("DONE$", "all done", True, True),
        ("DONE$", "all done", False, False),
        ("^b", "a\nb", False, False),
        ("(?m)^b", "a\nb", False, True),
        ("ü", "für", False, True),
    ],
)
async def test_a_pattern_is_found_anywhere_in_the_text(
    renderer: WorkerRenderer,
    pattern: str,
    text: str,
    ignore_case: bool,
    found: bool,
) -> None:
    assert await renderer.find(pattern, text, ignore_case=ignore_case, namespace="n") is found


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(?P<x", "*"])
async def test_what_is_no_pattern_is_named(renderer: WorkerRenderer, pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        await renderer.find(pattern, "text", ignore_case=False, namespace="n")


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", r"(a|aa)+$", r"^(([a-z])+.)+[A-Z]([a-z])+$"]
)
async def test_a_pattern_that_never_ends_is_stopped_and_the_loop_goes_on(
    renderer: WorkerRenderer, pattern: str
) -> None:
    await renderer.find(
        "a", "a", ignore_case=False, namespace="n"
    )  # warm: what follows is the limit alone
    search = asyncio.create_task(
        renderer.find(pattern, "a" * 60 + "!", ignore_case=False, namespace="n")
    )
    turns = 0
    while not search.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(errors.RenderingFailed, match=r"more than 0\.5 s"):
        await search
    assert turns > MIN_TURNS
    assert await renderer.find("a", "a", ignore_case=False, namespace="n")


async def test_a_text_as_long_as_a_log_may_be_is_searched(renderer: WorkerRenderer) -> None:
    assert await renderer.find("end$", "x" * 256 * 1024 + "end", ignore_case=False, namespace="n")
