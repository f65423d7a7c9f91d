"""Orders the turns of a session: as they were stored, unless their numbers disagree. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import grouping, speakers
from knowledge_service.search.ranking.conversations.grouping import Conversation

# Turns that are further apart belong to two sessions. Within a session, turns that were not
# selected leave gaps. Arbitrary.
_MAX_GAP = 48
# Above the number of any turn, so that the positions of two runs never overlap.
_RUN_STRIDE = 1 << 32
_LAST_NUMBER = re.compile(r"\d{1,9}$")


def order_turns(
    conversations: Mapping[int, Conversation],
    rows: Mapping[int, Candidate],
    ordinals: Mapping[int, int],
) -> Mapping[int, int]:
    """Return the position of each fact: the index position, unless turn numbers contradict it.

    Clients that write a conversation concurrently interleave its turns; such a session is ordered
    by its turn numbers. Turns of one conversation that are far apart are two sessions.
    """
    by_conversation: dict[Conversation, list[tuple[int, int, int]]] = {}
    for number, conversation in conversations.items():
        turn = _turn(rows[number]) if number in ordinals else None
        if turn is not None:
            by_conversation.setdefault(conversation, []).append((ordinals[number], turn, number))
    ordered = dict(ordinals)
    for turns_of in by_conversation.values():
        for run in _runs(sorted(turns_of)):
            if any(earlier[1] > later[1] for earlier, later in pairwise(run)):
                start = run[0][0] * _RUN_STRIDE
                ordered |= {number: start + turn for _, turn, number in run}
    return ordered


def _runs(turns: Sequence[tuple[int, int, int]]) -> Iterator[Sequence[tuple[int, int, int]]]:
    """Split turns wherever two neighbours are far apart by position."""
    start = 0
    for end, (earlier, later) in enumerate(pairwise(turns), 1):
        if later[0] - earlier[0] > _MAX_GAP:
            yield turns[start:end]
            start = end
    yield turns[start:]


def _turn(row: Candidate) -> int | None:
    """Return the number of a turn in its session, from data, references, tags or the position."""
    name = speakers.turn_metadata(row.data_json).turn if row.data_json else ""
    if not name and '"refs":[{' in row.source_json:
        name = _turn_referred(row.source_json)
    if not name and row.tags_json != "[]":
        name = _turn_tagged(row.tags_json)
    last = _LAST_NUMBER.search(name) if name else None
    return int(last[0]) if last else row.position


@functools.lru_cache(maxsize=4096)
def _turn_tagged(tags_json: str) -> str:
    tag = grouping.TURN_TAG.search(tags_json)
    return tag[0].strip('"') if tag else ""


@functools.lru_cache(maxsize=1024)
def _turn_referred(source_json: str) -> str:
    refs: list[dict[str, str]] = json.loads(source_json)["refs"]
    return next((ref["id"] for ref in refs if grouping.TURN.search(ref["type"])), "")
