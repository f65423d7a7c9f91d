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
