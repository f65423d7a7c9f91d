"""What the command prints about the calls of a Task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_runtime import approval_rows, call_decisions
from kais import approvals
from kais.approvals import CallApproval


def call(number: int, character: str) -> CallApproval:
    """Return a call with arguments as long as an approval may have."""
    length = approvals.ARGUMENT_CHARACTERS - len('{"a": ""}')
    arguments = approvals.canonical({"a": character * length})
    return CallApproval(
        call=f"call-{number}",
        tool="write_file",
        arguments=arguments,
        sha256=approvals.hash_of(arguments),
        requested_at="2026-03-01T12:00:00+00:00",
        expires_at="2026-03-01T13:00:00+00:00",
    )


@pytest.mark.parametrize("character", ["a", "ж", "字", "😀"])
def test_long_arguments_in_any_script_fit_into_what_the_operator_reads(character: str) -> None:
    decided = [
        replace(call(n, character), outcome="approved", by="ana", reason=character * 1024)
        for n in range(30)
    ]
    waiting = [call(n, character) for n in range(30, 60)]
    text = call_decisions.serialize([*waiting[:1], *decided, *waiting[1:]])
    assert len(text) <= call_decisions.MAX_BYTES
    printed = json.loads(text)
    first = printed[approvals.MAX_APPROVALS]
    assert first == waiting[0].dump()
    assert [each["call"] for each in printed[: approvals.MAX_APPROVALS]] == [
        f"call-{n}" for n in range(10, 30)
    ]
    assert not any("arguments" in each for each in printed[: approvals.MAX_APPROVALS])


def test_file_whose_tables_are_not_yet_created_has_no_calls(tmp_path: Path) -> None:
    file = tmp_path / approval_rows.STATE_FILE
    file.touch()
    assert call_decisions.exchange(file, []) == []
