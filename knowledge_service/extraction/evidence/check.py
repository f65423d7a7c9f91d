"""Checks whether the record of a run supports a statement that a model extracted from it. Pure.

A model verifies statements, too (`statement_verification`): then only the defects that are certain
count here, and without its verdict all of them.

Three questions are asked of the texts of the episodes that the statement names: how much of it they
cover (`coverage`), whether its numbers stand in their places (`quantities`), and whether they deny
what it affirms or the reverse (`polarity`). Each answer is a defect from 0 on; the weighted sum of
the defects decides. The check compares words: it also rejects statements that follow only by
reasoning. `tests/unit/knowledge_service/data/evidence_pairs*.yaml` have examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knowledge_service.extraction.evidence import coverage, passages, polarity, quantities
from knowledge_service.extraction.evidence.passages import Passage

_BREVITY = "brevity"
# A statement with this many content words is long enough for words that the record lacks.
_LONG = 8
# A logistic regression on the labelled pairs (`python -m bench.evidence`), times 100.
WEIGHTS: Mapping[str, int] = {
    _BREVITY: 723,
    "uncovered run": 125,
    "uncovered reason": 125,
    "uncovered end": 300,
    "new name": 271,
    "missing number": 709,
    "other unit": 440,
    "reversed numbers": 711,
    "earlier number": 643,
    "misplaced number": 1368,
    "denial": 532,
    "affirmation": 379,
}
LIMIT = 493
"""The largest sum of weighted defects with which a statement counts as supported.

It is 20 less than the fitted one: so cross-validation keeps as large a share as it drops.

A contradicted denial exceeds it alone, and so does a number that is missing, reversed or of an
earlier state.
"""
CERTAIN = ("missing number", "other unit", "reversed numbers", "new name")
"""The defects that no verdict of a model outweighs; a number may follow by a conversion or a sum.

Of 430 supported statements among the labelled pairs for tuning, one has such a defect.
"""
# A term can be as long as its statement; the condition of a Mission shows several reasons.
_MOST_SHOWN = 40
_NO_EPISODE = "it names no episode that says anything"


def certain_defect(statement: str, texts: Sequence[str]) -> str | None:
    """Return why the texts cannot carry the statement, whatever a model says; None if they may."""
    claim, record = passages.read([statement]), passages.read(texts)
    if not claim.words or not record.words:
        return _NO_EPISODE
    if not any(record.has(term) for term in claim.terms):
        return "its episodes have none of its words"
    measured = _defects(statement, claim, record, with_arithmetic=True)
    return next((measured[name][1] for name in CERTAIN if measured[name][0]), None)


def missing_support(statement: str, texts: Sequence[str]) -> str | None:
    """Return why the texts do not carry the statement; None if they do."""
    claim, record = passages.read([statement]), passages.read(texts)
    if not claim.words or not record.words:
        return _NO_EPISODE
    measured = _defects(statement, claim, record)
    weighted = {name: WEIGHTS[name] * size for name, (size, _) in measured.items()}
    decisive = max(weighted.keys() - {_BREVITY}, key=lambda name: (weighted[name], name))
    # Brevity is no reason by itself: it only adds to another defect.
    if not weighted[decisive] or sum(weighted.values()) <= LIMIT:
        return None
    return measured[decisive][1]


def defects(statement: str, texts: Sequence[str]) -> dict[str, float]:
    """Return the size of each defect of a statement, to fit the weights."""
    measured = _defects(statement, passages.read([statement]), passages.read(texts))
    return {name: size for name, (size, _) in measured.items()}


def _defects(
    statement: str, claim: Passage, record: Passage, *, with_arithmetic: bool = False
) -> dict[str, tuple[float, str]]:
    """Return the size of each defect of a statement, and the reason to reject it for that.

    `with_arithmetic`: a number that follows from others by a conversion or a sum is not missing.
    """
    covered = coverage.measure(statement, claim, record)
    numbers = quantities.compare(statement, claim, record)
    missing = numbers.underivable if with_arithmetic else numbers.missing
    denials = polarity.compare(statement, claim, record)
    lacks_words = "its episodes do not have most of its words"
    opposite = "its episodes say the opposite about "
    return {
        _BREVITY: (max(1 - covered.length / _LONG, 0.0), lacks_words),
        "uncovered run": (covered.run, lacks_words),
        "uncovered reason": (covered.reason, lacks_words),
        "uncovered end": (1 - covered.end, lacks_words),
        "new name": (float(covered.has_new_name), "its episodes do not have a name that it has"),
        "missing number": (
            float(missing is not None),
            f"its episodes do not have the number {_shown(missing)}",
        ),
        "other unit": (float(numbers.is_other_unit), "its episodes have a number in another unit"),
        "reversed numbers": (
            float(numbers.is_reversed),
            "its episodes have its numbers in another order",
        ),
        "earlier number": (
            float(numbers.is_earlier_state),
            "its episodes have another number after the change",
        ),
        "misplaced number": (
            numbers.misplaced,
            f"its episodes have the number {_shown(numbers.misplaced_number)} beside other words",
        ),
        "denial": (denials.denial.value, f"{opposite}{_shown(denials.denied_term)!r}"),
        "affirmation": (
            float(denials.reversed_term is not None),
            f"{opposite}{_shown(denials.reversed_term)!r}",
        ),
    }


def _shown(term: str | None) -> str:
    text = term or ""
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
