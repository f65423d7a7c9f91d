"""Marks of one recalled answer, and their means with intervals."""

from collections.abc import Mapping, Sequence

import numpy as np

Marks = Mapping[str, float]
_SAMPLES = 1000


def mark_answer(fact_ids: Sequence[str], evidence: frozenset[str]) -> Marks:
    """Mark an answer of which any fact of the evidence is enough."""
    hits = [fact in evidence for fact in fact_ids]
    first = hits.index(True) + 1 if True in hits else 0
    return {
        "first": float(any(hits[:1])),
        "among 5": float(any(hits[:5])),
        "among 10": float(any(hits[:10])),
        "MRR": 1 / first if first else 0.0,
        "share of the first 10": sum(hits[:10]) / 10,
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean, by resampling the questions; always the same."""
    sample = np.random.default_rng(0).integers(0, len(values), (_SAMPLES, len(values)))
    low, high = np.percentile(np.array(values)[sample].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def mean_with_interval(values: Sequence[float]) -> str:
    """Render a mean in points of 100 with half the width of its interval."""
    low, high = interval(values)
    return f"{100 * float(np.mean(values)):.1f} ± {50 * (high - low):.1f}"
