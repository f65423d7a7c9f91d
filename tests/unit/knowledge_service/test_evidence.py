"""The check that a statement of a model follows from its episodes, judged on labelled pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from knowledge_service.extraction.evidence import check

DATA = Path(__file__).parent / "data"


def shares(file_name: str) -> tuple[float, float]:
    """Return the share of supported statements that are kept, and of others that are dropped."""
    pairs: list[dict[str, Any]] = yaml.safe_load((DATA / file_name).read_text("utf-8"))
    kept, dropped = [], []
    for pair in pairs:
        record = pair["record"]
        kept += [check.missing_support(text, record) is None for text in pair["supported"]]
        for label in ("invented", "negated", "number"):
            dropped += [
                check.missing_support(text, record) is not None for text in pair.get(label, [])
            ]
    return sum(kept) / len(kept), sum(dropped) / len(dropped)


@pytest.mark.parametrize(
    "file_name",
    [
        "evidence_pairs.yaml",
        "evidence_pairs_judged.yaml",
        "evidence_pairs_varied.yaml",
        "evidence_pairs_tuning.yaml",
    ],
)
def test_nine_of_ten_are_judged_right_on_pairs_that_the_check_was_tuned_on(file_name: str) -> None:
    kept, dropped = shares(file_name)
    assert kept >= 0.9
    assert dropped >= 0.9


RECORD = ["connection refused: postgres:5432", "the service listens on port 6432"]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("The service listens on port 6432.", None),
        ("The service listens on port 7432.", "its episodes do not have the number 7432"),
        (
            "The service listens on port 5432.",
            "its episodes have the number 5432 beside other words",
        ),
        (
            "The service does not listen on port 6432.",
            "its episodes say the opposite about 'listen'",
        ),
        (
            "Backups are taken at midnight by an operator.",
            "its episodes do not have most of its words",
        ),
        ("", "it names no episode that says anything"),
    ],
)
def test_reason_names_what_the_episodes_lack(statement: str, problem: str | None) -> None:
    assert check.missing_support(statement, RECORD) == problem


def test_statement_without_episodes_has_no_support() -> None:
    assert check.missing_support("anything", []) == "it names no episode that says anything"
