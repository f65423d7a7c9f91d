"""The check that a statement of a model follows from its episodes, judged on labelled pairs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from knowledge_service.extraction.evidence import check

DATA = Path(__file__).parent / "data"
TUNING = (
    "evidence_pairs.yaml",
    "evidence_pairs_judged.yaml",
    "evidence_pairs_varied.yaml",
    "evidence_pairs_tuning.yaml",
)


def shares(file_name: str) -> tuple[float, float]:
    """Return the share of supported statements that are kept, and of others that are dropped."""
    pairs: list[dict[str, Any]] = yaml.safe_load((DATA / file_name).read_text("utf-8"))
    kept, dropped = [], []
    for pair in pairs:
        record = pair["record"]
        kept += [check.missing_support(text, record) is None for text in pair.get("supported", [])]
        for label in ("invented", "negated", "number"):
            dropped += [
                check.missing_support(text, record) is not None for text in pair.get(label, [])
            ]
    return sum(kept) / len(kept), sum(dropped) / len(dropped)


@pytest.mark.parametrize("file_name", TUNING)
def test_nine_of_ten_are_judged_right_on_pairs_that_the_check_was_tuned_on(file_name: str) -> None:
    kept, dropped = shares(file_name)
    assert kept >= 0.9
    assert dropped >= 0.9


def test_nine_of_ten_are_judged_right_on_pairs_that_were_opened_after_the_tuning() -> None:
    kept, dropped = shares("evidence_pairs_unopened.yaml")
    assert kept >= 0.9
    assert dropped >= 0.95


@pytest.mark.parametrize(
    ("file_name", "least_kept", "least_dropped"),
    [
        ("evidence_pairs_blind.yaml", 0.9, 0.65),
        ("evidence_pairs_judged_again.yaml", 0.65, 0.65),
        ("evidence_pairs_unseen.yaml", 0.74, 0.43),
    ],
)
def test_no_fewer_pairs_of_other_authors_are_judged_right_than_at_first(
    file_name: str, least_kept: float, least_dropped: float
) -> None:
    kept, dropped = shares(file_name)
    assert kept >= least_kept
    assert dropped >= least_dropped


def test_long_statement_with_one_contradiction_is_rejected() -> None:
    record = ["the service listens on port 6432", "the backup of the ledger runs at midnight"]
    statement = (
        "The backup of the ledger runs at midnight, and the service that keeps the ledger of the"
        " backup does not listen on the port 6432."
    )
    assert (
        check.missing_support(statement, record) == "its episodes say the opposite about 'listen'"
    )
    assert check.missing_support(statement.replace("does not listen", "listens"), record) is None


_MOST_S = 2.0
"""For 65,536 characters, which take 0.4 s at most; quadratic time takes tens of seconds."""


@pytest.mark.parametrize(
    "part",
    [
        *("a ", "not cache ", "no cache, ", "1s ", "1-", "1:", "web-0 ", "unlocked ", "0 errors "),
        *("from 1 to 2 ", "from 1", "instead of 1 ", "cut to 1 ", "1 of 2 ", "cache fails; ", "\n"),
        *("is on ", "because ", "does not run. ", "caching cached caches cacher "),
    ],
)
def test_check_reads_64_kib_at_once(part: str) -> None:
    record = [part * (65_536 // len(part))]
    statement = (part * 1_000)[:1_000]

    def seconds() -> float:
        started = time.thread_time()
        check.missing_support(statement, record)
        return time.thread_time() - started

    assert any(seconds() < _MOST_S for _ in range(3))


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


@pytest.mark.parametrize(
    "statement", ["Port 8080 is closed.", "The disk was full.", "The cache is stale.", "lag 200"]
)
def test_short_statement_is_no_less_supported_by_its_own_words(statement: str) -> None:
    record = ["the probe timed out after 5 s", statement, "the next run passed"]
    assert check.missing_support(statement, record) is None


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("The service does not listen on port 6432.", None),
        ("The service listens on port 5432.", None),
        ("The service listens on port 7432.", "its episodes do not have the number 7432"),
        ("The service of Hamburg listens.", "its episodes do not have a name that it has"),
        ("Backups are encrypted at midnight.", "its episodes have none of its words"),
        ("", "it names no episode that says anything"),
    ],
)
def test_only_certain_defects_outweigh_a_verdict(statement: str, problem: str | None) -> None:
    assert check.certain_defect(statement, RECORD) == problem


@pytest.mark.parametrize(
    ("record", "statement", "problem"),
    [
        ("the lag fell from 45 to 10", "The lag fell from 10 to 45.", "in another order"),
        ("the probe takes 4 s", "The probe takes 4 minutes.", "a number in another unit"),
    ],
)
def test_exchanged_numbers_and_units_are_certain_defects(
    record: str, statement: str, problem: str
) -> None:
    assert problem in str(check.certain_defect(statement, [record]))


@pytest.mark.parametrize(
    ("record", "statement"),
    [
        ("the probe timed out after 1000 ms", "The probe timed out after 1 s."),
        ("the job ran for 1.5 h", "The job ran for 90 minutes."),
        ("the dump has 2 GB", "The dump has 2048 MB."),
        ("the dump has 2 GB", "The dump has 2000 MB."),
        ("12 tests failed in api; 3 tests failed in web", "15 tests failed in api and web."),
        ("the build took 40 s and the upload 1 min", "The build and the upload took 100 s."),
    ],
)
def test_conversion_and_sum_of_two_numbers_are_no_certain_defects(
    record: str, statement: str
) -> None:
    assert check.certain_defect(statement, [record]) is None
    assert check.missing_support(statement, [record]) is not None


@pytest.mark.parametrize(
    ("record", "statement", "number"),
    [
        ("the probe timed out after 1000 ms", "The probe timed out after 2 s.", "2"),
        ("the probe timed out after 1000 ms", "The probe was tried 1 time.", "1"),
        ("12 tests failed; 3 hosts were down", "15 tests failed.", "15"),
        ("12 tests failed; 3 tests were skipped", "16 tests ran.", "16"),
        ("12 tests failed", "24 tests failed.", "24"),
        ("port 6432 and port 1000 are open", "Port 7432 is open.", "7432"),
        ("10 s, then 20 s, then 30 s passed", "60 s passed.", "60"),
        ("the probe timed out after 1000 ms", "The probe timed out after 1 s on 1 host.", "1"),
    ],
)
def test_number_that_follows_by_no_such_arithmetic_is_a_certain_defect(
    record: str, statement: str, number: str
) -> None:
    problem = f"its episodes do not have the number {number}"
    assert check.certain_defect(statement, [record]) == problem


def test_at_most_one_supported_statement_of_a_hundred_has_a_certain_defect() -> None:
    supported = [
        (text, pair["record"])
        for name in TUNING
        for pair in yaml.safe_load((DATA / name).read_text("utf-8"))
        for text in pair["supported"]
    ]
    certain = [text for text, record in supported if check.certain_defect(text, record)]
    assert len(certain) <= len(supported) / 100


def test_statement_without_episodes_has_no_support() -> None:
    assert check.missing_support("anything", []) == "it names no episode that says anything"
