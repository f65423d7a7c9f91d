"""Questions that people asked about meetings, with the turns that answer them.

The training split of QMSum (Zhong et al., NAACL 2021, arXiv 2104.05938), under the MIT licence in
`data/meetings.LICENSE`: 162 meetings, 88,336 turns, 1,095 questions. Its people marked stretches of
talk (23 turns at the median), so what counts is whether a turn of a stretch is found and how high,
not whether all turns are. The meetings have two halves by name. Weights are learned from the first;
the second is for judging alone.
"""

import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.recall.queries import Question, Set
from knowledge_client.models import FactIn, Source
from knowledge_service.domain import facts as domain

_FILE = Path(__file__).parent / "data" / "meetings.jsonl.xz"


def meetings(half: int) -> list[Set]:
    """Read the meetings of the first (0) or of the second (1) half, each as a set."""
    return [_set(meeting) for meeting in read(half)]


def read(half: int) -> Iterator[dict[str, Any]]:
    """Read the meetings of a half as they are in the file."""
    with lzma.open(_FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            meeting: dict[str, Any] = json.loads(line)
            if zlib.crc32(meeting["conv"].encode()) % 2 == half:
                yield meeting


def _set(meeting: dict[str, Any]) -> Set:
    name = meeting["conv"]
    facts: dict[str, FactIn] = {}
    first: dict[bytes, str] = {}
    ids = []
    for index, turn in enumerate(meeting["turns"]):
        body = FactIn(
            content=f"{turn['speaker']}: {turn['text']}"[:8192], tags=(f"session_{turn['s']}",)
        )
        new = domain.new_fact(body, scope="realm:bench", source=Source(), confidence=0.5)
        ids.append(first.setdefault(new.content_hash, f"{name} {index}"))
        facts.setdefault(ids[-1], body)
    questions = [
        Question(
            f"{name} q{number}",
            "meeting",
            question["q"],
            frozenset(
                ids[index] for start, end in question["spans"] for index in range(start, end + 1)
            ),
        )
        for number, question in enumerate(meeting["qa"])
    ]
    return Set(name, facts, tuple(questions))
