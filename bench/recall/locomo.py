"""Questions about conversations by other people: `python -m bench.recall locomo FILE...`.

LoCoMo (Maharana et al., ACL 2024, arXiv 2402.17753): ten long conversations, with questions whose
answers name the turns that prove them. Other systems of memory report figures on it. Its licence
(CC BY-NC 4.0) keeps it out of this repository: nothing is learned from it, and no choice was made
on it. `FILE` is `data/locomo10.json` of github.com/snap-research/locomo, or the files of one
conversation each that earlier versions have.

Questions of the fifth category have no answer in the conversation, and are left out, as are those
that name no turn.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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


def run(files: Sequence[Path]) -> str:
    """Return the figures of both finders with intervals, for all questions and each category."""
    return table(HEAD, measure_sets([*read(files)], marks.mean_with_interval))


def read(files: Sequence[Path]) -> Iterator[Set]:
    """Read each conversation as a set of facts: a turn with its speaker, session and time each."""
    for file in files:
        content = json.loads(file.read_text("utf-8"))
        samples = content if isinstance(content, list) else [content]
        for number, sample in enumerate(samples):
            name = f"{file.stem} {number}" if len(samples) > 1 else file.stem
            facts = dict(_turns(sample.get("conversation", sample)))
            yield Set(name, facts, tuple(_questions(sample["qa"], facts)))


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
    rows: Sequence[Mapping[str, Any]], facts: Mapping[str, FactIn]
) -> Iterator[Question]:
    for number, row in enumerate(rows):
        named = _TURN_ID.findall(" ".join(row.get("evidence") or ()))
        evidence = frozenset(named) & facts.keys()
        if row["category"] in _CATEGORIES and evidence:
            kind = _CATEGORIES[row["category"]]
            yield Question(str(number), kind, str(row["question"]), frozenset(evidence))
