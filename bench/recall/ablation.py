"""What each learned feature brings: `python -m bench.recall features`.

Each weight is made neutral, alone, and the questions of the judged half of the meetings are asked
again: neither a word of them nor an answer is of this project, and no weight was learned from them.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.figures import table
from bench.recall import marks, training
from bench.recall.meetings import meetings
from bench.recall.queries import Set
from knowledge_client.models import RecallIn
from knowledge_service.domain.principals import administrator
from knowledge_service.search.pipeline import RankerConfig
from knowledge_service.search.ranking.weights import FACTOR_NAMES, SHIPPED, WEIGHT_NAMES, Weights
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import recall as recall_use_case

_HEAD = (
    "feature", "weight", "MRR", "first", "among 5", "among 10", "share of the first 10",
    "answers that change",
)  # fmt: skip
_LIMIT = 10


def weights_without(name: str) -> Weights:
    """Return the shipped weights with one that is neutral."""
    additive = {**SHIPPED.additive, **({} if name in FACTOR_NAMES else {name: 0.0})}
    factors = {**SHIPPED.factors, **({name: 1.0} if name in FACTOR_NAMES else {})}
    return Weights(additive, factors, digest=f"without {name}")


def run() -> str:
    """Return a row for each feature: what the marks lose without it, in points of 100."""
    members = meetings(1)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "k.db")
        try:
            names = [
                training.remember(store, f"realm:bench{number}", member.facts)
                for number, member in enumerate(members)
            ]
            shipped, answers = _ask(store, members, names)
            rows = []
            for name in WEIGHT_NAMES:
                store.ranker_config = RankerConfig(weights=weights_without(name))
                ablated, ablated_answers = _ask(store, members, names)
                rows.append(
                    [name, _format_weight(name), *_losses(shipped, ablated),
                     _changed(answers, ablated_answers)]
                )  # fmt: skip
            store.ranker_config = RankerConfig(use_second_hop=False)
            ablated, ablated_answers = _ask(store, members, names)
            rows.append(
                ["second hop", "", *_losses(shipped, ablated), _changed(answers, ablated_answers)]
            )
        finally:
            store.close()
    return table(_HEAD, rows)


def _changed(answers: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> int:
    return sum(a != b for a, b in zip(answers, others, strict=True))


def _format_weight(name: str) -> str:
    if name in FACTOR_NAMES:
        return f"x {SHIPPED.factors[name]:.2f}"
    return f"+ {SHIPPED.additive[name]:.2f}"


def _losses(shipped: Sequence[marks.Marks], ablated: Sequence[marks.Marks]) -> list[str]:
    losses = []
    for mark in ("MRR", "first", "among 5", "among 10", "share of the first 10"):
        differences = [a[mark] - b[mark] for a, b in zip(shipped, ablated, strict=True)]
        low, high = marks.interval(differences)
        mean = float(np.mean(differences))
        losses.append(f"{100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]")
    return losses


def _ask(
    store: SqliteStore, members: Sequence[Set], names: Sequence[Mapping[str, str]]
) -> tuple[list[marks.Marks], list[list[str]]]:
    reader = administrator("bench", "system")
    all_marks, answers = [], []
    for number, member in enumerate(members):
        for question in member.questions:
            if not question.evidence:
                continue
            body = RecallIn(query=question.text, limit=_LIMIT, scopes=(f"realm:bench{number}",))
            answer = recall_use_case.recall(
                store, reader, body, now=training.NOW, idempotency_key=None
            )
            answers.append([names[number][fact.id] for fact in answer.facts])
            all_marks.append(marks.mark_answer(answers[-1], question.evidence))
    return all_marks, answers
