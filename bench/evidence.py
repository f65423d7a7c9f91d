"""Fit and judge the weights of the check of evidence: `python -m bench.evidence`.

Prints the weights of a logistic regression on the labelled pairs of `TUNING`, what cross-validation
(ten folds, each record in one fold, five partitions) keeps and drops, with all defects and without
each one, and what the check of this checkout does with each file. `python -m bench.evidence verify`
judges the verification by a model instead; `--help` shows its options.
"""

import sys
import time
from pathlib import Path

import numpy as np

from bench import verification
from bench.labelled_pairs import LABELS, Pair, pairs
from knowledge_service.extraction.evidence import check

DATA = Path("tests/unit/knowledge_service/data")
TUNING = (
    "evidence_pairs",
    "evidence_pairs_judged",
    "evidence_pairs_varied",
    "evidence_pairs_tuning",
)
FOLDS, PARTITIONS, PENALTY = 10, 5, 1.0


def fit(sizes: np.ndarray, supported: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the weight of each defect, and the limit of their weighted sum."""
    mean, deviation = sizes.mean(axis=0), sizes.std(axis=0) + 1e-9
    columns = np.c_[(sizes - mean) / deviation, np.ones(len(sizes))]
    penalty = np.diag([*[PENALTY] * sizes.shape[1], 1e-6])
    solution = np.zeros(columns.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-columns @ solution))
        gradient = columns.T @ (chance - supported) + penalty @ solution
        curvature = (columns * (chance * (1 - chance))[:, None]).T @ columns + penalty
        solution -= np.linalg.solve(curvature, gradient)
    weights = -solution[:-1] / deviation
    return weights, float(solution[-1] + weights @ mean)


def cross_validated(
    sizes: np.ndarray, supported: np.ndarray, records: list[tuple[str, int]]
) -> np.ndarray:
    """Return the margin of each pair below the limit, from weights fitted without its record."""
    margins = np.zeros(len(sizes))
    distinct = sorted(set(records))
    for partition in range(PARTITIONS):
        order = np.random.RandomState(partition).permutation(len(distinct))
        fold_of = {distinct[place]: at % FOLDS for at, place in enumerate(order)}
        folds = np.array([fold_of[record] for record in records])
        for fold in range(FOLDS):
            inside = folds == fold
            weights, limit = fit(sizes[~inside], supported[~inside])
            margins[inside] += (limit - sizes[inside] @ weights) / PARTITIONS
    return margins


def counts(examined: list[Pair], kept: np.ndarray) -> str:
    right = {label: [0, 0] for label in LABELS}
    for pair, is_kept in zip(examined, kept, strict=True):
        right[pair.label][0] += bool(is_kept) == (pair.label == "supported")
        right[pair.label][1] += 1
    return ", ".join(f"{label} {good}/{total}" for label, (good, total) in right.items())


def main() -> None:
    examined = [pair for name in TUNING for pair in pairs(DATA / f"{name}.yaml")]
    found = [check.defects(pair.statement, pair.record) for pair in examined]
    names = list(found[0])
    sizes = np.array([[each[name] for name in names] for each in found])
    supported = np.array([pair.label == "supported" for pair in examined], float)
    records = [(pair.file, pair.record_no) for pair in examined]
    weights, limit = fit(sizes, supported)
    print({name: round(100 * weight) for name, weight in zip(names, weights, strict=True)})
    print("limit", round(100 * limit))
    for margin in (0.0, 0.1, 0.2, 0.3):
        margins = cross_validated(sizes, supported, records)
        print(f"cross-validation, limit {margin} lower:", counts(examined, margins > margin))
    for at, name in enumerate(names):
        without = np.delete(sizes, at, axis=1)
        kept = cross_validated(without, supported, records) > 0.2
        print(f"without {name}:", counts(examined, kept))
    for file in sorted(DATA.glob("evidence_pairs*.yaml")):
        own, started = list(pairs(file)), time.process_time()
        results = [check.missing_support(pair.statement, pair.record) for pair in own]
        cost_ms = (time.process_time() - started) / len(own) * 1000
        kept = np.array([result is None for result in results])
        print(f"{file.stem}: {counts(own, kept)}; {cost_ms:.2f} ms of processor time each")


if __name__ == "__main__":
    if sys.argv[1:2] == ["verify"]:
        verification.main(sys.argv[2:])
    else:
        main()
