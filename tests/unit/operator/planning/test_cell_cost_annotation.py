"""What a cell has cost: each run once, the last hour, and notes that somebody edited."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from kais import labels
from kais.agent_results import AgentUsage
from kais.resources.cell import Cell
from kais_operator.planning import cell_cost_annotation, costs
from kais_operator.planning.cell_cost_annotation import MAX_RUNS, CellUsage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def cell(annotation: str | None) -> Cell:
    annotations = {} if annotation is None else {labels.CELL_USAGE: annotation}
    spec = {"mind": {"provider": "openai", "model": "m", "systemPrompt": "s"}}
    metadata = {"name": "solo", "annotations": annotations}
    return Cell.from_dict({"metadata": metadata, "spec": spec})


def used(cost: str, **changes: object) -> AgentUsage:
    return AgentUsage(**{"input_tokens": 10, "cost": Decimal(cost), **changes})


def test_a_sum_survives_the_annotation() -> None:
    usage = CellUsage().add("a", used("0.1"), ended_at=NOW).add("b", used("0.2"), ended_at=NOW)

    assert cell_cost_annotation.read(cell(cell_cost_annotation.dump(usage))) == usage
    assert (usage.cost, usage.tokens) == (Decimal("0.3"), 20)
    assert usage.has("a")
    assert not usage.has("c")


def test_only_runs_of_the_last_hour_count_for_it() -> None:
    usage = CellUsage().add("old", used("1"), ended_at=NOW - timedelta(hours=1))
    usage = usage.add("new", used("0.25"), ended_at=NOW - timedelta(minutes=59))

    assert usage.cost_within_hour(NOW) == Decimal("0.25")


def test_the_annotation_names_the_latest_runs_and_sums_all() -> None:
    usage = CellUsage()
    for number in range(MAX_RUNS + 5):
        usage = usage.add(f"run-{number}", used("0.01"), ended_at=NOW)

    assert len(usage.runs) == MAX_RUNS
    assert usage.runs[-1].run_id == f"run-{MAX_RUNS + 4}"
    assert usage.cost == Decimal("0.55")


def test_a_cell_of_many_runs_an_hour_is_held_to_all_of_them() -> None:
    usage = CellUsage()
    for second in range(0, 3 * 3600, 10):
        ended_at = NOW + timedelta(seconds=second)
        usage = usage.add(f"run-{second}", used("0.01"), ended_at=ended_at)

    usage = cell_cost_annotation.read(cell(cell_cost_annotation.dump(usage))) or CellUsage()
    assert Decimal("3.60") <= usage.cost_within_hour(ended_at) <= Decimal("3.90")
    assert usage.cost_within_hour(ended_at + timedelta(minutes=30)) <= Decimal("2.10")
    assert usage.cost_within_hour(ended_at + timedelta(hours=1)) == 0
    assert len(usage.runs) == MAX_RUNS
    assert len(cell_cost_annotation.dump(usage)) < 8192


def test_a_cell_of_billions_of_tokens_keeps_its_cost() -> None:
    usage = CellUsage().add("a", used("90", input_tokens=999_999_999), ended_at=NOW)
    usage = usage.add("b", used("10", input_tokens=999_999_999), ended_at=NOW)

    assert cell_cost_annotation.read(cell(cell_cost_annotation.dump(usage))) == usage
    assert usage.tokens == 1_999_999_998


@pytest.mark.parametrize(
    "annotation",
    [None, "", "{", "[]", "{}", '{"cost": "NaN", "tokens": 1, "priced": true, "runs": []}',
     '{"cost": "1", "tokens": -1, "priced": true, "runs": []}',
     '{"cost": "1E+300", "tokens": 1, "priced": true, "runs": []}',
     '{"cost": "1", "tokens": 1e30, "priced": true, "runs": []}',
     '{"cost": "1", "tokens": 1, "priced": true, "runs": [["a"]]}'],
)  # fmt: skip
def test_what_somebody_edited_counts_as_nothing(annotation: str | None) -> None:
    assert cell_cost_annotation.read(cell(annotation)) is None


@pytest.mark.parametrize(
    ("cost", "is_priced", "text"),
    [
        ("0", True, "$0.00"),
        ("0.00002", True, "<$0.0001"),
        ("0.00152", True, "$0.0015"),
        ("12.346", True, "$12.35"),
        ("0", False, "?"),
    ],
)
def test_a_cost_is_shown_in_dollars(cost: str, is_priced: bool, text: str) -> None:
    usage = CellUsage(cost=Decimal(cost), is_priced=is_priced)

    assert costs.display(usage) == text
    assert (costs.known_cost(usage) is None) is not is_priced


def test_no_usage_is_a_dash() -> None:
    assert (costs.display(None), costs.known_cost(None)) == (None, None)


def test_cells_that_are_merged_keep_their_sum_their_last_hour_and_the_latest_runs() -> None:
    usages = []
    for name in ("lead", "critic"):
        usage = CellUsage()
        for minute in range(-90, 0):
            ended_at = NOW + timedelta(minutes=minute, seconds=30)
            usage = usage.add(f"{name}{minute}", used("0.01"), ended_at=ended_at)
        usages.append(usage)
    merged = cell_cost_annotation.merge(usages, NOW)

    assert merged is not None
    assert (merged.cost, merged.tokens) == (Decimal("1.80"), 1800)
    assert len(merged.runs) == MAX_RUNS
    assert merged.has("lead-1")
    assert merged.has("critic-1")
    hour = sum(usage.cost_within_hour(NOW) for usage in usages)
    assert hour <= merged.cost_within_hour(NOW) <= hour + Decimal("0.10")
    assert cell_cost_annotation.read(cell(cell_cost_annotation.dump(merged))) == merged


def test_no_cells_merge_into_nothing() -> None:
    assert cell_cost_annotation.merge((), NOW) is None
