"""Where turns stand in a session: as they came, unless their numbers say otherwise. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import sessions, speakers
from knowledge_service.search.ranking.conversations.sessions import Conversation

# Turns of a session that are told at once stand closer; found ones leave gaps. Arbitrary.
_MAX_GAP = 48
# More than any number of a turn, so that no two runs meet.
_RUN_STRIDE = 1 << 32
_LAST_NUMBER = re.compile(r"\d{1,9}$")


def order_turns(
    conversations: Mapping[int, Conversation],
    rows: Mapping[int, Candidate],
    ordinals: Mapping[int, int],
) -> Mapping[int, int]:
    """Return where facts of sessions stand: places, unless turns that say their number disagree.

    Several clients that tell a conversation at once mix its turns. Then the numbers of that session
    stand for its places. What came far apart under one name are two sessions.
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
    """Part what did not come close together, by place."""
    start = 0
    for end, (earlier, later) in enumerate(pairwise(turns), 1):
        if later[0] - earlier[0] > _MAX_GAP:
            yield turns[start:end]
            start = end
    yield turns[start:]


def _turn(row: Candidate) -> int | None:
    """Return the number that a turn has in its session, as data, references or tags tell it."""
    name = speakers.turn_metadata(row.data_json).turn if row.data_json else ""
    if not name and '"refs":[{' in row.source_json:
        name = _turn_referred(row.source_json)
    if not name and row.tags_json != "[]":
        name = _turn_tagged(row.tags_json)
    last = _LAST_NUMBER.search(name) if name else None
    return int(last[0]) if last else row.position


@functools.lru_cache(maxsize=4096)
def _turn_tagged(tags_json: str) -> str:
    tag = sessions.TURN_TAG.search(tags_json)
    return tag[0].strip('"') if tag else ""


@functools.lru_cache(maxsize=1024)
def _turn_referred(source_json: str) -> str:
    refs: list[dict[str, str]] = json.loads(source_json)["refs"]
    return next((ref["id"] for ref in refs if sessions.TURN.search(ref["type"])), "")
