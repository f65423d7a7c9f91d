"""Who says a fact, whether it only asks, and which day its words are of.

Nobody has to tell turns in one way. The one who speaks is read from the words (`Anna: ...`), from
data, or, where names come again and again (`sessions`), from subject, title or tag. Pure.
"""

from __future__ import annotations

import functools
import json
import re

from knowledge_service.domain import conversation_metadata
from knowledge_service.domain.conversation_metadata import TurnMetadata
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.text import analyser, dates

# `Anna: text`, `[7 May, 14:05] Anna: text`, `Anna said ...`; at most three words of a name.
_SPEAKER = re.compile(
    r"(?:[\[(](?P<head>[^\])\n]{0,60})[\])]\s*)?"
    r"(?P<who>[A-Z][\w'.-]{0,30}(?: [A-Z][\w'.-]{0,30}){0,2})"
    r"\s*(?:\([^)\n]{0,40}\)\s*)?(?::| said\b| says\b| asked\b| wrote\b)"
)
_NAME = re.compile(r"[A-Z][\w'.-]{1,30}(?: [A-Z][\w'.-]{0,30}){0,2}")
_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_QUESTION_ENDINGS = ("?", '?"', "?\u201d")
# So many words beside its questions are a greeting or a comment ("Wow, congratulations!").
_GREETING_WORDS = 6
# A turn of so many words says little; before them stand a day, a moment and a name.
_SHORT_WORDS, _HEADING_WORDS = 6, 12
# So many signs of a script without spaces say as much as a word.
_CHARACTERS_PER_WORD = 2
_SPOKEN_TO = re.compile(r"(?i)\b(?:you|yours?|yourself)\b")


def speaker(row: Candidate) -> str | None:
    """Return who says the content, case-folded; None unless it is put as somebody's words."""
    match = _SPEAKER.match(row.content)
    if match:
        return match["who"].casefold()
    return turn_metadata(row.data_json).speaker.casefold() or None if row.data_json else None


def speaker_name(row: Candidate) -> str | None:
    """Return who says the content in a conversation."""
    match = _SPEAKER.match(row.content)
    if match:
        return match["who"]
    metadata = turn_metadata(row.data_json) if row.data_json else conversation_metadata.NO_METADATA
    return None if metadata.is_author else metadata.speaker or None


def candidate_name(row: Candidate) -> str | None:
    """Return a name that the fact bears, or None; whether it is a speaker's is another question."""
    for text in (row.subject, row.title):
        if text and _NAME.fullmatch(text):
            return text
    return None if row.tags_json == "[]" else _name_among(row.tags_json)


def is_speaker(row: Candidate, names: frozenset[str]) -> bool | None:
    """Tell whether one of these case-folded names says the content, or the fact bears it.

    None when nobody says it and it bears none of them.
    """
    speaking = speaker(row)
    if speaking is not None:
        return not names.isdisjoint((speaking, *speaking.split()))
    return _has_name(row, names) or None


def _has_name(row: Candidate, names: frozenset[str]) -> bool:
    for text in (row.subject, row.title):
        if text:
            folded_text = text.casefold()
            if not names.isdisjoint((folded_text, *folded_text.split())):
                return True
    return row.tags_json != "[]" and not names.isdisjoint(map(str.casefold, row.tags))


def has_speaker(row: Candidate) -> bool:
    """Tell whether a name is on it, so that what stands beside it may be what it answers."""
    return bool(speaker_name(row) or candidate_name(row))


def is_asking(row: Candidate) -> bool:
    """Tell whether a turn only asks, and hardly says anything: what is looked for comes after it.

    A fact of the kind `question` is one to be found.
    """
    content = row.content
    if not content.endswith(_QUESTION_ENDINGS) or row.kind == "question":
        return False
    spoken = _spoken_text(row)
    if "." not in spoken and "!" not in spoken:
        return True
    sentences = _SENTENCE.findall(spoken)
    statements = [sentence for sentence in sentences if not sentence.endswith("?")]
    return sum(len(sentence.split()) for sentence in statements) <= _GREETING_WORDS


def is_short(row: Candidate) -> bool:
    """Tell whether a turn has so few words that it hardly says anything by itself.

    What a subject is by a predicate is no turn.
    """
    if row.predicate or row.content.count(" ") >= _SHORT_WORDS + _HEADING_WORDS:
        return False
    spoken = _spoken_text(row)
    return (
        len(spoken.split()) <= _SHORT_WORDS
        and analyser.unspaced(spoken) <= _SHORT_WORDS * _CHARACTERS_PER_WORD
    )


def is_spoken_to(row: Candidate) -> bool:
    """Tell whether the words are to the one who listens, and so perhaps about them ("your dog")."""
    return _SPOKEN_TO.search(row.content) is not None


def _spoken_text(row: Candidate) -> str:
    match = _SPEAKER.match(row.content)
    return row.content[match.end() :] if match else row.content


def time_text(row: Candidate) -> str:
    """Return what stands in brackets before the words, or what data says of when; may be empty."""
    match = _SPEAKER.match(row.content)
    head = match["head"] if match else None
    return head or (turn_metadata(row.data_json).time_text if row.data_json else "")


def stated_days(row: Candidate) -> tuple[dates.Moment, ...]:
    """Return the days that stand before somebody's words or beside them, unless it says since when.

    What a fact holds from is said by `valid_from` alone where that is given.
    """
    if row.valid_from_us is not None:
        return ()
    head = time_text(row)
    return tuple(day for day in dates.dates_in_text(head) if day.year) if head else ()


@functools.lru_cache(maxsize=4096)
def turn_metadata(data_json: str) -> TurnMetadata:
    """Read what data says of speaker, session, turn and moment."""
    return conversation_metadata.parse_json(data_json)


@functools.lru_cache(maxsize=4096)
def _name_among(tags_json: str) -> str | None:
    return next((tag for tag in json.loads(tags_json) if _NAME.fullmatch(tag)), None)
