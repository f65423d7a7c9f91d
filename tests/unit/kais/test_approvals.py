"""What a person is shown of a tool call, and what their decision says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kais import approvals


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("Größe", '{"path": "Größe"}'),
        ("a\u202eb", '{"path": "a\\u202eb"}'),
        ("\ud800", '{"path": "\\ud800"}'),
        ("\U000e0041", '{"path": "\\udb40\\udc41"}'),
        ("a\nb", '{"path": "a\\nb"}'),
    ],
)
def test_arguments_are_shown_without_characters_that_nobody_sees(value: str, shown: str) -> None:
    text = approvals.canonical({"path": value})
    assert text == shown
    assert json.loads(text) == {"path": value}, "they are still the arguments"


@pytest.mark.parametrize(
    "name", ["", " ", "system:serviceaccount:demo:lead", "a" * 300, "ana\u202e", "ana\nbob"]
)
def test_who_is_no_person_decides_nothing(name: str) -> None:
    record = '{"call": "c", "sha256": "s", "decision": "approve"}'
    with pytest.raises(ValueError, match="an approval comes from a person"):
        approvals.parse_decisions(record, name)


@pytest.mark.parametrize(
    "value",
    ["", "{", "[1]", '[{"call": "c"}]', '"approve"', '{"decision": ["approve"]}', "[" * 100_000],
)
def test_annotation_of_another_form_decides_nothing(value: str) -> None:
    with pytest.raises(ValueError, match=r"it is not JSON|it needs"):
        approvals.parse_decisions(value, "ana")


def test_decisions_are_read_as_they_were_written() -> None:
    def decision(**changes: Any) -> approvals.ApprovalDecision:
        fields = {"call": "c", "sha256": "s", "decision": "approve", "by": "ana", **changes}
        return approvals.ApprovalDecision(**fields)

    one, two = decision(), decision(call="d", decision="deny", reason="nicht jetzt: ß")
    for decisions in ((one,), (one, two)):
        assert approvals.parse_decisions(approvals.dump_decisions(decisions), "ana") == decisions


def test_reason_that_cannot_be_sent_is_repaired() -> None:
    text = '{"call": "c", "sha256": "s", "decision": "deny", "reason": "\\ud800"}'
    (decision,) = approvals.parse_decisions(text, "ana")
    assert decision.reason == "?"


def call(number: int, *, decided: bool = False) -> approvals.CallApproval:
    return approvals.CallApproval(
        call=f"call-{number}",
        tool="write_file",
        arguments="{}",
        sha256=approvals.hash_of("{}"),
        requested_at=f"2026-03-01T12:{number:02}:00+00:00",
        expires_at="2026-03-01T13:00:00+00:00",
        outcome="approved" if decided else None,
        decided_at=f"2026-03-01T12:{number:02}:30+00:00" if decided else None,
    )


def names(calls: tuple[approvals.CallApproval, ...]) -> list[str]:
    return [each.call for each in calls]


def test_the_oldest_waiting_calls_are_shown_after_the_newest_decided_ones() -> None:
    decided, waiting = [call(n, decided=True) for n in range(25)], [call(n) for n in (30, 31)]
    shown = approvals.shown([*waiting, *decided])
    assert names(shown) == [f"call-{n}" for n in [*range(7, 25), 30, 31]]


def test_more_waiting_calls_than_are_shown_follow_when_the_older_ones_are_decided() -> None:
    shown = approvals.shown([call(n) for n in reversed(range(25))])
    assert names(shown) == [f"call-{n}" for n in range(20)]
    later = approvals.shown([call(n, decided=n < 20) for n in range(25)])
    assert names(later) == [f"call-{n}" for n in range(5, 25)]


def test_a_later_report_of_a_call_takes_precedence() -> None:
    assert approvals.merged([call(1), call(2)], [call(1, decided=True)]) == (
        call(1, decided=True),
        call(2),
    )
