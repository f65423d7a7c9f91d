"""Add neighbours in the index of the best matches, and facts that are linked to these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge_service.search.match_selection import Selection
from knowledge_service.search.ranking import ranking
from knowledge_service.search.ranking.bm25 import Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import grouping
from knowledge_service.search.ranking.conversations.grouping import Conversation
from knowledge_service.search.snapshot import RowRequest

# Neighbours are up to `_REACH` positions away from one of the best `_NEIGHBOURS_OF` matches. At
# most `_MAX_NEIGHBOURS` are read: those that, with their own neighbours, match best.
_NEIGHBOURS_OF, _REACH, _MAX_NEIGHBOURS = 32, 3, 48
_LINKS_OF = 10


@dataclass(frozen=True)
class Neighbours:
    """The index neighbours of the best matches: positions by fact number, without selected rows.

    `conversations` are those of the selected rows. A neighbour counts only if its conversation is
    in `members_of`, the conversations of the best matches.
    """

    ordinals: Mapping[int, int]
    members_of: Collection[Conversation]
    conversations: Mapping[int, Conversation]


def find_neighbours(scores: Scores, selection: Selection) -> Neighbours:
    """Choose neighbours of the best matches that are part of a conversation."""
    best = _best_by_text(selection.text, _NEIGHBOURS_OF)
    conversations = grouping.group_by_conversation(selection.rows.values())
    nearby: set[int] = set()
    conversation_keys = set()
    for number in best:
        conversation = conversations.get(number)
        if conversation is not None:
            conversation_keys.add(conversation)
            ordinal = selection.ordinals[number]
            nearby.update(range(ordinal - _REACH, ordinal + _REACH + 1))
    end = len(scores.values)
    nearby.difference_update(
        selection.ordinals.values(), range(-_REACH, 0), range(end, end + _REACH)
    )
    if not nearby:
        return Neighbours({}, conversation_keys, conversations)
    ordinals = _best_neighbours(scores, sorted(nearby))
    numbers = scores.numbers(ordinals).tolist()
    by_number = dict(zip(numbers, ordinals.tolist(), strict=True))
    fresh = {
        number: ordinal for number, ordinal in by_number.items() if number not in selection.rows
    }
    return Neighbours(fresh, conversation_keys, conversations)


def _best_by_text(text: Mapping[int, float], count: int) -> list[int]:
    return sorted(text, key=lambda number: (-text[number], number))[:count]


def _best_neighbours(scores: Scores, nearby: Sequence[int]) -> NDArray[np.intp]:
    """Choose the positions with the best sums of their own scores and those of their neighbours."""
    ordinals = np.array(nearby, dtype=np.intp)
    if len(ordinals) <= _MAX_NEIGHBOURS:
        return ordinals
    combined = scores.values[ordinals]
    for step, weight in ranking.NEIGHBOUR_WEIGHTS:
        neighbours = ordinals + step
        is_valid = (neighbours >= 0) & (neighbours < len(scores.values))
        combined[is_valid] += weight * scores.values[neighbours[is_valid]]
    ordinals = ordinals[np.lexsort((ordinals, -combined))[:_MAX_NEIGHBOURS]]
    ordinals.sort()
    return ordinals


def linking_matches(text: Mapping[int, float]) -> list[int]:
    """Return the matches whose links are read: the best by their text scores."""
    return _best_by_text(text, _LINKS_OF)


def request_linked(
    selection: Selection, neighbours: Neighbours, candidates: Mapping[int, Candidate]
) -> RowRequest:
    """Request neighbours and links of the best matches.

    If fewer matches than `_LINKS_OF` pass the filters, a neighbour may be among the best too, so
    its links are requested as well.
    """
    best = linking_matches(selection.text)
    links_of = best if len(best) == _LINKS_OF else [*best, *neighbours.ordinals]
    fresh = [number for number in neighbours.ordinals if number not in candidates]
    return RowRequest(fresh, links_of, candidates)
