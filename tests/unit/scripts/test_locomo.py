"""The reader of a public set of conversations, on a conversation of our own in its two formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.recall import locomo

CONVERSATION = {
    "speaker_a": "Ada",
    "speaker_b": "Ben",
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_1": [
        {"speaker": "Ada", "dia_id": "D1:1", "text": "I keep a tortoise called Plato."},
        {"speaker": "Ben", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a red kayak"},
    ],
}
QUESTIONS = [
    {"question": "What is the tortoise called?", "category": 4, "evidence": ["D1:1"]},
    {"question": "Which boats and pets are there?", "category": 1, "evidence": ["D1:1; D1:2"]},
    {"question": "Who is the president?", "category": 5, "evidence": ["D1:1"]},
    {"question": "Which turn is this?", "category": 4, "evidence": ["D9:1"]},
]


@pytest.mark.parametrize(
    "content",
    [[{"qa": QUESTIONS, "conversation": CONVERSATION}], {"qa": QUESTIONS, **CONVERSATION}],
    ids=["one file for all", "one file each"],
)
def test_turns_become_facts_and_questions_without_evidence_are_left_out(
    tmp_path: Path, content: Any
) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps(content), "utf-8")
    [conversation] = locomo.read([file])
    first, second = conversation.facts.values()
    assert first.content == "Ada: I keep a tortoise called Plato."
    assert str(first.valid_from) == "2023-05-08 13:56:00+00:00"
    assert second.content == "Ben: Look! [shares a red kayak]"
    assert [(q.type, sorted(q.evidence)) for q in conversation.questions] == [
        ("one turn", ["D1:1"]),
        ("several turns", ["D1:1", "D1:2"]),
    ]


NOTES = {
    "session_1_observation": {
        "Ada": [["Ada has a tortoise.", "D1:1"], ["Ada likes boats.", ["D1:1", "D1:2"]]],
        "Ben": [["Ben has a kayak.", "D1:2"]],
    },
    "session_1_summary": "Ada and Ben talk.",
}


@pytest.mark.parametrize(
    "content",
    [[{"qa": QUESTIONS, "observation": NOTES}], {"qa": QUESTIONS, **CONVERSATION, **NOTES}],
    ids=["one file for all", "one file each"],
)
def test_notes_are_evidence_for_questions_about_their_turns(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps(content), "utf-8")
    [notes] = locomo.read_notes([file])
    assert {name: fact.content for name, fact in notes.facts.items()} == {
        "session_1/Ada 0": "Ada has a tortoise.",
        "session_1/Ada 1": "Ada likes boats.",
        "session_1/Ben 0": "Ben has a kayak.",
    }
    assert [(q.type, sorted(q.evidence)) for q in notes.questions] == [
        ("one turn", ["session_1/Ada 0", "session_1/Ada 1"]),
        ("several turns", ["session_1/Ada 0", "session_1/Ada 1", "session_1/Ben 0"]),
    ]
    assert locomo.session_of_note("session_1/Ada 0") == "session_1"
    assert locomo.speaker_of_note("session_1/Ada 0") == "Ada"


def test_figures_have_a_row_for_each_category(tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps({"qa": QUESTIONS, **CONVERSATION}), "utf-8")
    figures = locomo.run([file])
    assert "| one turn | recall | 100.0 ± 0.0 |" in figures
    assert "| several turns | FTS5 |" in figures
