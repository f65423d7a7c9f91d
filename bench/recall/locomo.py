"""Questions about conversations by other people: `python -m bench.recall locomo FILE...`.

LoCoMo (Maharana et al., ACL 2024, arXiv 2402.17753): ten long conversations, with questions whose
answers name the turns that prove them. Other systems of memory report figures on it. Its licence
(CC BY-NC 4.0) keeps it out of this repository: nothing is learned from it, and no choice was made
on it. `FILE` is `data/locomo10.json` of github.com/snap-research/locomo, or the files of one
conversation each that earlier versions have.

Questions of the fifth category have no answer in the conversation, and are left out, as are those
that name no turn. The files also have what a model noted about each speaker in each session, with
the turns that say so: `read_notes` reads these as facts in place of the turns.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.figures import table
from bench.recall import marks
from bench.recall.evaluation import HEAD, measure_sets
from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn

_CATEGORIES = {1: "several turns", 2: "a time", 3: "general knowledge", 4: "one turn"}
_TURN_ID = re.compile(r"D\d+:\d+")
_SESSION = re.compile(r"session_\d+")
_NOTES = re.compile(rf"({_SESSION.pattern})_observation")


def run(files: Sequence[Path]) -> str:
    """Return the figures of both finders with intervals, for all questions and each category."""
    return table(HEAD, measure_sets([*read(files)], marks.mean_with_interval))


def read(files: Sequence[Path]) -> Iterator[Set]:
    """Read each conversation as a set of facts: a turn with its speaker, session and time each."""
    for name, sample in _samples(files):
        facts = dict(_turns(sample.get("conversation", sample)))
        yield Set(name, facts, tuple(_questions(sample["qa"], facts)))


def read_notes(files: Sequence[Path]) -> Iterator[Set]:
    """Read each conversation as the notes about it: `session_1/Caroline 3` is the name of one.

    The evidence of a question are the notes that name one of its turns.
    """
    for conversation, sample in _samples(files):
        facts: dict[str, FactIn] = {}
        notes_of: dict[str, set[str]] = {}
        for name, text, turn_ids in _notes(sample.get("observation", sample)):
            facts[name] = FactIn(content=text)
            for turn_id in turn_ids:
                notes_of.setdefault(turn_id, set()).add(name)
        questions = [
            replace(
                question,
                evidence=frozenset().union(*(notes_of[turn] for turn in question.evidence)),
            )
            for question in _questions(sample["qa"], notes_of)
        ]
        yield Set(conversation, facts, tuple(questions))


def _samples(files: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Read each conversation with its name."""
    for file in files:
        content = json.loads(file.read_text("utf-8"))
        samples = content if isinstance(content, list) else [content]
        for number, sample in enumerate(samples):
            yield f"{file.stem} {number}" if len(samples) > 1 else file.stem, sample


def session_of_note(name: str) -> str:
    """Return the session that a note is about."""
    return name.partition("/")[0]


def speaker_of_note(name: str) -> str:
    """Return the speaker that a note is about."""
    return name.partition("/")[2].rpartition(" ")[0]


def _notes(sample: Mapping[str, Any]) -> Iterator[tuple[str, str, Sequence[str]]]:
    for key, by_speaker in sample.items():
        session = _NOTES.fullmatch(key)
        if session:
            for speaker, notes in by_speaker.items():
                for number, (text, turn_ids) in enumerate(notes):
                    name = f"{session[1]}/{speaker} {number}"
                    yield name, text, _TURN_ID.findall(json.dumps(turn_ids))


def _turns(conversation: Mapping[str, Any]) -> Iterator[tuple[str, FactIn]]:
    for name, turns in conversation.items():
        if not _SESSION.fullmatch(name):
            continue
        started_at = conversation[f"{name}_date_time"].strip()
        at = datetime.strptime(f"{started_at} +0000", "%I:%M %p on %d %B, %Y %z")
        for turn in turns:
            text = f"{turn['speaker']}: {turn.get('text') or turn.get('clean_text', '')}"
            if caption := turn.get("blip_caption"):
                text += f" [shares {caption}]"
            yield turn["dia_id"], FactIn(content=text, tags=(name,), valid_from=at)


def _questions(
    rows: Sequence[Mapping[str, Any]], turns: Mapping[str, object]
) -> Iterator[Question]:
    for number, row in enumerate(rows):
        named = _TURN_ID.findall(" ".join(row.get("evidence") or ()))
        evidence = frozenset(named) & turns.keys()
        if row["category"] in _CATEGORIES and evidence:
            kind = _CATEGORIES[row["category"]]
            yield Question(str(number), kind, str(row["question"]), frozenset(evidence))
