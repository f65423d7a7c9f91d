"""Marks of one recalled answer, and their means with intervals."""

from collections.abc import Mapping, Sequence

import numpy as np

from bench.recall.queries import Question
from knowledge_client.models import FactIn

Marks = Mapping[str, float]
TOKENS = 1_000
_SAMPLES = 1000


def mark_answer(fact_ids: Sequence[str], evidence: frozenset[str]) -> Marks:
    """Mark an answer of which any fact of the evidence is enough."""
    hits = [fact in evidence for fact in fact_ids]
    return {
        "first": float(any(hits[:1])),
        "among 5": float(any(hits[:5])),
        "among 10": float(any(hits[:10])),
        "MRR": _reciprocal_rank(fact_ids, evidence),
        "share of the first 10": sum(hits[:10]) / 10,
    }


def mark_all_evidence(
    fact_ids: Sequence[str], question: Question, facts: Mapping[str, FactIn]
) -> Marks:
    """Mark an answer that should have all facts of the evidence."""
    evidence = question.evidence
    positions = [fact_ids.index(fact_id) for fact_id in evidence if fact_id in fact_ids]
    tokens_left, selected = TOKENS, set()
    for fact_id in fact_ids:
        tokens = -(-len(facts[fact_id].content) // 4)
        if tokens <= tokens_left:
            tokens_left -= tokens
            selected.add(fact_id)
    recalls = {
        size: sum(position < size for position in positions) / len(evidence) for size in (1, 5, 10)
    }
    return {
        "recall@1": recalls[1],
        "@5": recalls[5],
        "@10": recalls[10],
        "MRR": _reciprocal_rank(fact_ids, evidence),
        "all evidence@20": float(sum(position < 20 for position in positions) == len(evidence)),
        "in 1,000 tokens": len(selected & evidence) / len(evidence),
    }


def _reciprocal_rank(fact_ids: Sequence[str], evidence: frozenset[str]) -> float:
    ranks = (rank for rank, fact_id in enumerate(fact_ids, 1) if fact_id in evidence)
    return 1 / next(ranks, float("inf"))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean, by resampling the questions; always the same."""
    sample = np.random.default_rng(0).integers(0, len(values), (_SAMPLES, len(values)))
    low, high = np.percentile(np.array(values)[sample].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def mean_with_interval(values: Sequence[float]) -> str:
    """Render a mean in points of 100 with half the width of its interval."""
    low, high = interval(values)
    return f"{100 * float(np.mean(values)):.1f} ± {50 * (high - low):.1f}"


def mean(values: Sequence[float]) -> str:
    """Render a mean in points of 100."""
    return f"{100 * float(np.mean(values)):.1f}"
