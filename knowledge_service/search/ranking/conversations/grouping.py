"""Identifies the conversation that a fact is part of.

A conversation is derived from what a fact is about, refers to or is tagged with, from its data,
from a heading in brackets before the words, or from the time that facts share. Pure.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Hashable, Iterable, Set

from knowledge_service.domain import conversation_metadata
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import speakers
from knowledge_service.search.text import dates

_CONVERSATION_KIND = re.compile(
    r"(?i)session|conversation|thread|dialog|chat|meeting|channel|call|interview"
)
_LABEL = (
    r"(?:session|conv(?:ersation)?|dialog(?:ue)?|chat|thread|meeting|day)[-_:/ #]?[^\"]{0,40}?\d+"
)
_CONVERSATION_TAG = re.compile(rf'(?i)"({_LABEL}[^"]{{0,20}})"')
_HEAD_LABEL = re.compile(rf"(?i)\b{_LABEL}")
TURN = re.compile(r"(?i)turn|message|utterance|line|post|dia_id|comment|^dia$")
"""Types of references that identify a turn."""
TURN_TAG = re.compile(r'"([A-Za-z]{1,12}\d{1,6}):\d{1,6}"')
"""A tag that identifies a turn, in the JSON of a fact's tags: `D1:3` is the third of D1."""
_TURN_ID = re.compile(r"(.*\d.*)[:#/.]\d+")
_DAY_US = 86_400_000_000
# Names in subjects, titles and tags count as speakers only if at least this many facts have one,
# and each name occurs twice on average. Few facts other than those of a conversation do.
_MIN_NAMES = 4
# Up to this many people may talk in a session, even if none says much.
_MAX_SPEAKERS = 4
Conversation = tuple[int, str, Hashable]
"""The scope's number, the source of the grouping, and the name."""


def group_by_conversation(rows: Iterable[Candidate]) -> dict[int, Conversation]:
    """Return the conversation of each fact, by fact number; facts without one are left out."""
    conversations: dict[int, Conversation] = {}
    by_speaker: dict[Conversation, list[tuple[int, str]]] = {}
    by_name: dict[Conversation, list[tuple[int, str]]] = {}
    for row in rows:
        conversation = _by_reference(row) or _by_metadata(row)
        if conversation is not None:
            conversations[row.number] = conversation
            continue
        speaker = speakers.speaker_name(row)
        if speaker:
            by_speaker.setdefault(_by_day(row), []).append((row.number, speaker))
        else:
            name = speakers.candidate_name(row)
            if name:
                by_name.setdefault(_by_moment(row), []).append((row.number, name))
    names = [name for turns in by_name.values() for _, name in turns]
    if len(names) >= _MIN_NAMES and 2 * len(set(names)) <= len(names):
        by_speaker |= by_name
    for key, turns in by_speaker.items():
        if not _are_topics({speaker for _, speaker in turns}, len(turns)):
            conversations |= {number: key for number, _ in turns}
    return conversations


def _are_topics(names: Set[str], turns: int) -> bool:
    """Return whether apparent names are topics (`Redis: ...`): many names, few of them repeated."""
    return len(names) > _MAX_SPEAKERS and 3 * len(names) > turns


def possible_conversation(row: Candidate) -> Conversation | None:
    """Return the conversation of a fact, assuming that its name, if it has one, is a speaker's."""
    return conversation_of(row) or (_by_moment(row) if speakers.candidate_name(row) else None)


def conversation_of(row: Candidate) -> Conversation | None:
    """Return the conversation of a fact, as far as the fact itself identifies it.

    The conversation is the entity that the fact is about, the session or run that it refers to, a
    tag such as `session_3`, a session or turn in its data, or, for a statement with a speaker, its
    day. None without any of these.
    """
    conversation = _by_reference(row) or _by_metadata(row)
    if conversation is not None:
        return conversation
    return _by_day(row) if speakers.speaker_name(row) else None


def is_about_entity(conversation: Conversation) -> bool:
    """Return whether the group is the observations of one entity."""
    return conversation[1] == "about"


def is_conversation(conversation: Conversation) -> bool:
    """Return whether the group is a dialogue, not the facts of a run or about an entity."""
    _, source, name = conversation
    return source != "about" and not (
        isinstance(name, tuple) and source == "ref" and not _is_spoken_kind(name[0])
    )


@functools.lru_cache(maxsize=256)
def _is_spoken_kind(kind: str) -> bool:
    return _CONVERSATION_KIND.search(kind) is not None or TURN.search(kind) is not None


def _by_reference(row: Candidate) -> Conversation | None:
    if row.about:
        return row.scope_no, "about", row.about
    if '"refs":[{' in row.source_json:
        return row.scope_no, "ref", _referred(row.source_json)
    tag = _conversation_tag(row.tags_json) if row.tags_json != "[]" else None
    return (row.scope_no, "tag", tag) if tag else None


def _by_metadata(row: Candidate) -> Conversation | None:
    metadata = (
        speakers.turn_metadata(row.data_json)
        if row.data_json
        else conversation_metadata.NO_METADATA
    )
    if metadata.session:
        return row.scope_no, "data", metadata.session
    turn = _TURN_ID.fullmatch(metadata.turn) if metadata.turn else None
    return (row.scope_no, "turn", turn[1]) if turn else None


def _by_day(row: Candidate) -> Conversation:
    """Return the day of a statement as its conversation."""
    if row.valid_from_us is not None:
        return row.scope_no, "day", row.valid_from_us // _DAY_US
    return row.scope_no, "day", _heading_label(speakers.time_text(row))


def _by_moment(row: Candidate) -> Conversation:
    return row.scope_no, "moment", row.valid_from_us


@functools.lru_cache(maxsize=4096)
def _conversation_tag(tags_json: str) -> str | None:
    match = _CONVERSATION_TAG.search(tags_json) or TURN_TAG.search(tags_json)
    return match[1].casefold() if match else None


@functools.lru_cache(maxsize=4096)
def _heading_label(head: str) -> Hashable:
    """Parse the heading before the words: a session's label, a day, or None."""
    label = _HEAD_LABEL.search(head) if head else None
    if label:
        return label[0].casefold()
    return dates.dates_in_text(head)[:1] if head else None


@functools.lru_cache(maxsize=1024)
def _referred(source_json: str) -> tuple[str, str]:
    refs: list[dict[str, str]] = json.loads(source_json)["refs"]
    kind, name = refs[0]["type"], refs[0]["id"]
    for ref in refs:
        if _CONVERSATION_KIND.search(ref["type"]):
            kind, name = ref["type"], ref["id"]
            break
    else:
        for ref in refs:
            if TURN.search(ref["type"]):
                kind, name = ref["type"], ref["id"]
    # `D1:3` is the third turn of D1, whatever its type.
    turn = _TURN_ID.fullmatch(name)
    return kind, turn[1] if turn else name
