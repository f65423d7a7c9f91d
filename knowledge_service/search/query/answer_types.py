"""The expected answer type of a query (a number, a name, a place), and how to find it in a fact.

It is derived from the query's question words ("how many", "who", "where", "why") and from the usual
spelling of such answers. A turn that answers may share the answer type with the query but no word.
Pure.
"""

from __future__ import annotations

import re

from knowledge_service.search.text.english import MONTHS

_NUMBERS = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred"
    r"|thousand|half|dozen|once|twice|every|each|couple|few"
)
_MONTH = "|".join(month.capitalize() for month in MONTHS)
# (query pattern, text pattern) of each answer type; the first match decides.
_ANSWER_TYPES = (
    (
        re.compile(r"(?i)\bhow (?:many|much|old|long|often|far|big|tall|high|fast|large)\b"),
        re.compile(rf"(?i)\d|\b(?:one|{_NUMBERS})\b"),
    ),
    (
        re.compile(r"(?i)^\W*who(?:m|se)?\b|\bwith whom\b|\bname of\b|\b(?:call|nam)ed\b"),
        re.compile(r"(?<=[a-z,] )[A-Z][a-z]+"),
    ),
    (
        re.compile(r"(?i)\bwhere\b|\b(?:which|what) (?:city|country|town|village|place|state)\b"),
        re.compile(rf"\b(?:in|at|to|from|near|of|around) (?:the )?(?!(?:{_MONTH})\b)[A-Z][a-z]+"),
    ),
    (
        re.compile(r"(?i)\bwhy\b"),
        re.compile(r"(?i)\b(?:because|since|so that|wanted|reason|inspired?|felt|to help)\b"),
    ),
)


def answer_pattern(question: str) -> re.Pattern[str] | None:
    """Return the pattern of texts with the expected answer type; None when any text may answer."""
    for question_pattern, text_pattern in _ANSWER_TYPES:
        if question_pattern.search(question):
            return text_pattern
    return None
