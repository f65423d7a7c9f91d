"""The second hop: finds turns that share rare words with the best, for answers that span turns.

    the best turns -> their rare words -> a second match with these and with word vectors
      -> results after the best

A question about Ada's holiday finds the turn where she names the place; the other turns about it
name the place and not the holiday. The best `UNCHANGED_RESULTS` of the first match stay first, so
the hop only decides what follows them. It applies to conversations only, because other facts are
complete in themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

from knowledge_service.search.ranking.bm25 import Scores
from knowledge_service.search.ranking.candidates import Candidate
from knowledge_service.search.ranking.conversations import speakers
from knowledge_service.search.ranking.ranking import WORD_VECTORS_OF_TURNS, Ranked
from knowledge_service.search.ranking.weights import Weights
from knowledge_service.search.text import analyser

HOPS_FROM = 3
"""The number of best turns whose words are used."""
UNCHANGED_RESULTS = 5
"""The number of best results that the hop does not change."""
WEIGHT = 0.35
"""The weight of a word of the hop; a word of the question has 1."""
_VECTORS_WEIGHT = 0.6
_MOST_TERMS = 12
# A word is rare if it is in at most this share of the searched facts, or in at most this many.
_RARE_SHARE, _RARE_COUNT = 0.02, 3
# A score after the best results is at most the last of theirs, less this share for each position.
_STEP = 1e-9


def applies(best: Sequence[Candidate]) -> bool:
    """Return whether the best results are turns of a conversation."""
    return bool(best) and all(speakers.has_speaker(row) for row in best)


def new_terms(best: Sequence[Candidate], query_terms: Set[str]) -> Counter[str]:
    """Return in how many of the best turns each term is.

    Terms of the query and the name of a turn's own speaker do not count.
    """
    counts: Counter[str] = Counter()
    for row in best:
        name = analyser.terms(speakers.speaker_name(row) or "")
        counts.update(analyser.terms(row.content).keys() - name.keys() - query_terms)
    return counts


def rare_terms(counts: Counter[str], scores: Scores) -> dict[str, float]:
    """Choose the terms of the hop, with their weight; `scores` must be a match of all `counts`.

    A term that occurs in only one fact is left out. Terms of several of the best turns come first,
    then the rarest.
    """
    documents = scores.document_counts()
    max_documents = max(_RARE_COUNT, _RARE_SHARE * len(scores.values))
    rare = [term for term in counts if 1 < documents.get(term, 0) <= max_documents]
    rare.sort(key=lambda term: (-counts[term], documents[term], term))
    return dict.fromkeys(rare[:_MOST_TERMS], WEIGHT)


def weights_of(weights: Weights) -> Weights:
    """Return the weights of the second match, in which turns also score by word vectors.

    The words of another turn of the answer are near to those of the question more often than they
    are the same. The best results are chosen without, because there this costs more than it finds.
    """
    return replace(weights, additive={**weights.additive, WORD_VECTORS_OF_TURNS: _VECTORS_WEIGHT})


def merge(first: Sequence[Ranked], second: Sequence[Ranked]) -> list[Ranked]:
    """Append the results of the second match to the best of the first, best first.

    A score that exceeds the last of the best is lowered by the factor `x_hop`.
    """
    best = list(first[:UNCHANGED_RESULTS])
    bound = best[-1].score
    best_numbers = {result.number for result in best}
    further_results = [result for result in second if result.number not in best_numbers]
    limits = (bound * (1 - position * _STEP) for position in range(1, len(further_results) + 1))
    return best + [
        _limited(result, limit) for result, limit in zip(further_results, limits, strict=True)
    ]


def _limited(result: Ranked, limit: float) -> Ranked:
    if result.score <= limit:
        return result
    factor = limit / result.score
    return result._replace(score=limit, parts=result.parts | {"x_hop": factor})
