from __future__ import annotations

import logging

import pytest

from knowledge_service.startup_progress import Progress
from tests.fakes.clock import FakeClock


def test_words_say_what_for_how_long_and_how_much_and_no_number_of_facts() -> None:
    clock = FakeClock()
    progress = Progress(clock.monotonic)
    with progress.step("rebuilding the index"):
        for number in progress.track(range(200), 200):
            clock.advance(0.5)
            if number == 90:
                assert progress.description == "rebuilding the index for 46 s, 45 % done"


def test_long_work_is_a_line_now_and_then_and_one_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = FakeClock()
    progress = Progress(clock.monotonic)
    with progress.step("migrating"):
        for _ in progress.track(range(25), 25):
            clock.advance(1)
    messages = [(record.getMessage(), record.__dict__["fields"]) for record in caplog.records]
    assert messages == [
        ("upkeep begins", {"doing": "migrating"}),
        ("upkeep continues", {"doing": "migrating for 10 s, 40 % done"}),
        ("upkeep continues", {"doing": "migrating for 20 s, 80 % done"}),
        ("upkeep ended", {"doing": "migrating", "seconds": 25}),
    ]


def test_what_failed_is_not_said_to_have_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(ValueError, match="broken"), Progress().step("migrating"):
        raise ValueError("broken")
    assert [record.getMessage() for record in caplog.records] == ["upkeep begins"]
