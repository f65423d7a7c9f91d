"""The text of an episode as a model reads it."""

from __future__ import annotations

import pytest

from knowledge_client.models import Episode
from knowledge_service.domain import episode_text


def text_of(content: str, error_signature: str | None = None) -> str:
    return episode_text.text_of(
        Episode(
            seq=1, run_id="r", actor="agent", type="error",
            content=content, error_signature=error_signature,
        )
    )  # fmt: skip


def test_signature_stands_in_front_of_a_content_that_does_not_have_it() -> None:
    assert text_of("pod a was killed", "OOMKilled") == "OOMKilled: pod a was killed"
    assert text_of("pod a: OOMKilled", "OOMKilled") == "pod a: OOMKilled"


@pytest.mark.parametrize(
    ("content", "legible"),
    [
        ("\x1b[31mERROR\x1b[0m: disk \x1b[1;4mfull\x1b[m", "ERROR: disk full"),
        ("\x1b]0;title\x07ready\x1b]8;;https://x\x1b\\link", "readylink"),
        ("50 %\x1b[2K\x1b[?25h done", "50 % done"),
        ("a\x00b\x07c\x7fd", "abcd"),
        ("\x1b]never ended", "]never ended"),
        ("one\ttwo\r\nthree", "one\ttwo\r\nthree"),
        ("Pru\u0308fung", "Pr\u00fcfung"),
    ],
)
def test_text_has_no_control_sequences_of_a_terminal_and_composed_letters(
    content: str, legible: str
) -> None:
    assert text_of(content) == legible


def test_many_sequences_without_an_end_leave_their_text() -> None:
    assert text_of("\x1b]" * 4_000) == "]" * 4_000
    assert text_of("\x1b[" * 4_000 + "x") == "[" * 3_999
