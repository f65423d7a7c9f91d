"""The version of the ranker: a name that changes whenever a weight or a table changes.

Receipts store it, and a replay compares it. The name is derived from the constants themselves,
because people forget to raise a version number by hand.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import ModuleType
from typing import Any

from knowledge_service.domain import chart_statements, conversation_metadata, recall_filters
from knowledge_service.search import (
    match_selection,
    neighbours,
    pipeline,
    retrieval_result,
    second_hop,
    snapshot,
    thesaurus,
)
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.query import answer_types, expansion, parser
from knowledge_service.search.ranking import (
    bm25,
    candidates,
    near_duplicates,
    ranking,
    weights,
    word_vectors,
)
from knowledge_service.search.ranking.conversations import (
    grouping,
    speakers,
    turn_content,
    turn_order,
)
from knowledge_service.search.ranking.weights import SHIPPED, Weights
from knowledge_service.search.text import dates, english

FORMULA = "learned-7"
"""The version of the formula. Raise it with any code change that changes a score."""
MODULES = (
    answer_types, candidates, thesaurus, dates, english, recall_filters, match_selection,
    neighbours, pipeline, retrieval_result, snapshot, near_duplicates,
    parser, ranking, weights, bm25, grouping, speakers, turn_content, expansion, turn_order,
    conversation_metadata, second_hop, chart_statements, word_vectors,
)  # fmt: skip
"""The modules that determine candidates, scores and order. The analyser has its own version."""

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


def identity(learned: Weights = SHIPPED) -> str:
    """Return the formula's version and a hash of every weight and table that it uses.

    Values count in the order of their definition, without their names, so renaming a constant does
    not change the version. The learned weights count by the digest of their file.
    """
    values = [*(_plain(value) for _, _, value in constants()), learned.digest]
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{FORMULA}-{digest}"


def constants() -> Iterator[tuple[ModuleType, str, Any]]:
    """Yield the constants of the modules that are values: numbers, words, patterns, tables."""
    for module in MODULES:
        for name, value in vars(module).items():
            if _CONSTANT.fullmatch(name) and isinstance(value, _VALUES):
                yield module, name, value


_VALUES = (str, int, float, tuple, list, AbstractSet, Mapping, re.Pattern)


def _plain(value: Any) -> Any:
    """Convert a value to JSON data, the same in every process: sets and tables in sorted order."""
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    if isinstance(value, Mapping):
        pairs = ([_plain(key), _plain(item)] for key, item in value.items())
        return sorted(pairs, key=json.dumps)
    if isinstance(value, AbstractSet):
        return sorted((_plain(item) for item in value), key=json.dumps)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


RANKER = identity()


_WITHOUT_CONVERSATIONS = "-no-conversations"


def version_of(config: RankerConfig) -> str:
    """Return the name of the ranker with these features, as receipts keep it."""
    ranker = RANKER if config.weights.digest == SHIPPED.digest else identity(config.weights)
    return ranker if config.use_conversations else ranker + _WITHOUT_CONVERSATIONS
