"""Whether a turn only asks or says hardly anything, and the day of a statement. Pure."""

from __future__ import annotations

import re

from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import speakers
from knowledge_service.search.text import analyser, dates

_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_QUESTION_ENDINGS = ("?", '?"', "?\u201d")
# A turn that asks may state up to this many words: a greeting or a comment ("Congratulations!").
_GREETING_WORDS = 6
# A turn of up to this many words says little. Its heading (day, time, name) may have this many
# more.
_SHORT_WORDS, _HEADING_WORDS = 6, 12
# This many characters of a script without spaces, such as Japanese, count as one word.
_CHARACTERS_PER_WORD = 2


def is_asking(row: Candidate) -> bool:
    """Return whether a turn asks and states hardly anything, so that its answer is a later turn.

    A fact of the kind `question` does not count: it may be the answer itself.
    """
    content = row.content
    if not content.endswith(_QUESTION_ENDINGS) or row.kind == "question":
        return False
    spoken = speakers.spoken_text(row)
    if "." not in spoken and "!" not in spoken:
        return True
    sentences = _SENTENCE.findall(spoken)
    statements = [sentence for sentence in sentences if not sentence.endswith("?")]
    return sum(len(sentence.split()) for sentence in statements) <= _GREETING_WORDS


def is_short(row: Candidate) -> bool:
    """Return whether a turn is so short that it says hardly anything by itself.

    A fact with a predicate is not a turn.
    """
    if row.predicate or row.content.count(" ") >= _SHORT_WORDS + _HEADING_WORDS:
        return False
    spoken = speakers.spoken_text(row)
    return (
        len(spoken.split()) <= _SHORT_WORDS
        and analyser.unspaced(spoken) <= _SHORT_WORDS * _CHARACTERS_PER_WORD
    )


def stated_days(row: Candidate) -> tuple[dates.Moment, ...]:
    """Return the days, with a year, in the heading or the data of a statement.

    Empty if the fact has `valid_from`, which alone says when the fact begins to be true.
    """
    if row.valid_from_us is not None:
        return ()
    head = speakers.time_text(row)
    return tuple(day for day in dates.dates_in_text(head) if day.year) if head else ()
