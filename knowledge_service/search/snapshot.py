"""The reads of a retrieval: what a store answers for one reader at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from knowledge_service.search.ranking.bm25 import Related, Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.ranking import OutcomeCounts

MOST_LINKED = 64
"""The maximum number of linked facts that a fact adds, for each direction of its links."""


@dataclass(frozen=True)
class Matches:
    """The BM25 scores of all visible documents, and the similarities of the nearest facts.

    Similarities are in [0, 1]. There are none without embeddings.
    """

    scores: Scores
    similarities: Mapping[int, float]


@dataclass(frozen=True)
class RowRequest:
    """Facts to read, and the related data to read for others.

    The cost of related data grows with the number of visible scopes, so it is requested for the
    best facts alone, never for all candidates.

    Attributes:
        links_of: facts whose live links are read, with the facts at the other ends.
        candidates: the rows that were read before, by fact number; they are not read again.
        outcomes_of: rows whose outcomes are counted.
        keys_of: rows with a key; the live facts of all visible scopes on these keys are read.
    """

    numbers: Sequence[int] = ()
    links_of: Sequence[int] = ()
    candidates: Mapping[int, Candidate] = field(default_factory=dict)
    outcomes_of: Sequence[Candidate] = ()
    keys_of: Sequence[Candidate] = ()


@dataclass(frozen=True)
class RowBatch:
    """The answer to a `RowRequest`.

    Attributes:
        links: pairs of a requested fact and a visible one. If a fact has more than `MOST_LINKED`
            links in one direction, all its links to requested candidates are included, but only the
            first of its other links, by the number of the scope and then of the fact at the other
            end.
        same_key: live facts of all visible scopes that share a key with one of `keys_of`.
        outcomes: the outcomes of runs that recalled one of `outcomes_of`, as far as the reader may
            see them.
        success_rates: the success rates of the scopes of facts with outcomes, by scope number,
            under the same condition.
    """

    candidates: Sequence[Candidate] = ()
    links: Sequence[tuple[int, int]] = ()
    same_key: Sequence[Candidate] = ()
    outcomes: Mapping[int, OutcomeCounts] = field(default_factory=dict)
    success_rates: Mapping[int, float] = field(default_factory=dict)


class Snapshot(Protocol):
    """One reader's view of a store at one moment."""

    @property
    def paths(self) -> Mapping[int, str]:
        """Return the searched scopes by number."""
        ...

    def match(self, terms: Mapping[str, float], related: Related) -> Matches:
        """Score every document of the searched scopes, and find the nearest by embedding."""
        ...

    def scores(self, terms: Mapping[str, float], related: Related | None = None) -> Scores:
        """Score every document of the searched scopes by weighted terms alone."""
        ...

    def rows(self, request: RowRequest) -> RowBatch:
        """Read rows of facts, in any order, with the related data that the request names."""
        ...
