"""Identifies the speaker of a fact, and separates the heading and the name from the text. Pure.

Clients write turns in many ways. A speaker is read from the content (`Anna: ...`), otherwise from
the data. A name in subject, title or tags is only a candidate: `grouping` takes it for a speaker's
if such names repeat among the facts that are ranked. A `row` is one of these facts.
"""

from __future__ import annotations

import functools
import json
import re

from knowledge_service.domain import conversation_metadata
from knowledge_service.domain.conversation_metadata import TurnMetadata
from knowledge_service.search.ranking.candidates import Candidate

# `Anna: text`, `[7 May, 14:05] Anna: text`, `Anna said ...`; a name has at most three words.
_SPEAKER = re.compile(
    r"(?:[\[(](?P<head>[^\])\n]{0,60})[\])]\s*)?"
    r"(?P<who>[A-Z][\w'.-]{0,30}(?: [A-Z][\w'.-]{0,30}){0,2})"
    r"\s*(?:\([^)\n]{0,40}\)\s*)?(?::| said\b| says\b| asked\b| wrote\b)"
)
_NAME = re.compile(r"[A-Z][\w'.-]{1,30}(?: [A-Z][\w'.-]{0,30}){0,2}")


def speaker(row: Candidate) -> str | None:
    """Return the speaker or author, case-folded; None unless the content or the data names one."""
    match = _SPEAKER.match(row.content)
    if match:
        return match["who"].casefold()
    return turn_metadata(row.data_json).speaker.casefold() or None if row.data_json else None


def speaker_name(row: Candidate) -> str | None:
    """Return the speaker as written; None without one, and for the author of a written text."""
    match = _SPEAKER.match(row.content)
    if match:
        return match["who"]
    metadata = turn_metadata(row.data_json) if row.data_json else conversation_metadata.NO_METADATA
    return None if metadata.is_author else metadata.speaker or None


def candidate_name(row: Candidate) -> str | None:
    """Return a name in the subject, title or tags, or None; it need not be a speaker's."""
    for text in (row.subject, row.title):
        if text and _NAME.fullmatch(text):
            return text
    return None if row.tags_json == "[]" else _first_name_in(row.tags_json)


def is_speaker(row: Candidate, names: frozenset[str]) -> bool | None:
    """Return whether the speaker has one of these case-folded names, in full or in part.

    Without a speaker: True if subject, title or tags have one of the names, otherwise None.
    """
    speaker_folded = speaker(row)
    if speaker_folded is not None:
        return not names.isdisjoint((speaker_folded, *speaker_folded.split()))
    return _has_name(row, names) or None


def _has_name(row: Candidate, names: frozenset[str]) -> bool:
    """Return whether a name is in the subject or title, in full or in part, or is a tag."""
    for text in (row.subject, row.title):
        if text:
            folded_text = text.casefold()
            if not names.isdisjoint((folded_text, *folded_text.split())):
                return True
    return row.tags_json != "[]" and not names.isdisjoint(map(str.casefold, row.tags))


def has_speaker(row: Candidate) -> bool:
    """Return whether the fact has a speaker or a name that may be one.

    Then it may answer the turn before it.
    """
    return bool(speaker_name(row) or candidate_name(row))


def time_text(row: Candidate) -> str:
    """Return the heading in brackets before the speaker, otherwise the time in the data, or ""."""
    match = _SPEAKER.match(row.content)
    head = match["head"] if match else None
    return head or (turn_metadata(row.data_json).time_text if row.data_json else "")


def spoken_text(row: Candidate) -> str:
    """Return the content without its heading and the name of the speaker."""
    match = _SPEAKER.match(row.content)
    return row.content[match.end() :] if match else row.content


@functools.lru_cache(maxsize=4096)
def turn_metadata(data_json: str) -> TurnMetadata:
    """Parse speaker, session, turn and time; cached, because a ranking reads them several times."""
    return conversation_metadata.parse_json(data_json)


@functools.lru_cache(maxsize=4096)
def _first_name_in(tags_json: str) -> str | None:
    return next((tag for tag in json.loads(tags_json) if _NAME.fullmatch(tag)), None)
