"""Which ranker made a score: a name that changes whenever a weight or a table does.

Receipts keep it, and a replay compares it. The name is made of the constants themselves, because a
number that a person must raise by hand is forgotten.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import ModuleType
from typing import Any

from knowledge_service.domain import conversation_metadata, recall_filters
from knowledge_service.search import pipeline, thesaurus
from knowledge_service.search.query import answer_types, expansion, parser
from knowledge_service.search.ranking import bm25, candidates, near_duplicates, ranking
from knowledge_service.search.ranking.conversations import sessions, speakers, turns
from knowledge_service.search.text import dates, english

FORMULA = "fused-3"
"""How the weights are put together. Raise it with a change of the code that moves a score."""
MODULES = (
    answer_types, candidates, thesaurus, dates, english, recall_filters, pipeline, near_duplicates,
    parser, ranking, bm25, sessions, speakers, expansion, turns, conversation_metadata,
)  # fmt: skip
"""What decides on candidates, scores and their order; the analyser has a version of its own."""

_EARLIER_DIGESTS = {"3e81f90a1f92": "93c1d4bd8d15"}
"""The digest in receipts, by the digest of the same values in another layout.

Add an entry when constants only move, and no score changes.
"""

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


def identity() -> str:
    """Return the formula and a hash of every weight and table that it uses.

    Values count in the order of their definition, without their names: a renamed constant scores
    as before.
    """
    values = [_plain(value) for _, _, value in constants()]
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{FORMULA}-{_EARLIER_DIGESTS.get(digest, digest)}"


def constants() -> Iterator[tuple[ModuleType, str, Any]]:
    """Go through the constants of the modules that are values: numbers, words, patterns, tables."""
    for module in MODULES:
        for name, value in vars(module).items():
            if _CONSTANT.fullmatch(name) and isinstance(value, _VALUES):
                yield module, name, value


_VALUES = (str, int, float, tuple, list, AbstractSet, Mapping, re.Pattern)


def _plain(value: Any) -> Any:
    """Write a value as JSON has it, the same in every process: sets and tables in order."""
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    if isinstance(value, Mapping):
        pairs = ([_plain(key), _plain(each)] for key, each in value.items())
        return sorted(pairs, key=json.dumps)
    if isinstance(value, AbstractSet):
        return sorted((_plain(each) for each in value), key=json.dumps)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


RANKER = identity()
