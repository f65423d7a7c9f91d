import pytest

from kais.resources.blueprint import Evidence
from kais_operator.controllers.blueprint.decide import evidence
from knowledge_client import models

CLAIMS = {"successRate": 0.9, "avgCompletionTime": 284, "avgCost": 1.2}


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        pytest.param(None, None, id="no evidence"),
        pytest.param({}, None, id="no claims"),
        pytest.param(CLAIMS, "90%, 284s, $1.20", id="all three, the time as a number"),
        pytest.param({"avgCompletionTime": "4m44s"}, "4m44s", id="the time in the author's words"),
        pytest.param({"successRate": 0}, "0%", id="a rate of zero is a claim"),
    ],
)
def test_what_is_claimed(claims: dict[str, object] | None, text: str | None) -> None:
    assert evidence.claimed(None if claims is None else Evidence.from_dict(claims)) == text


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        pytest.param(None, "not known yet", id="the store has said nothing"),
        pytest.param({"running": 3}, "no run that counts", id="nothing ended"),
        pytest.param({"succeeded": 6, "failed": 2}, "6 of 8 succeeded", id="rates alone"),
        pytest.param(
            {"succeeded": 6, "failed": 2, "median_duration_s": 31.5, "avg_cost": 0.4},
            "6 of 8 succeeded, 31.5s, $0.40",
            id="all that was measured",
        ),
    ],
)
def test_what_was_measured_stands_beside_it(counts: dict[str, float] | None, text: str) -> None:
    stats = None
    if counts is not None:
        stats = models.BlueprintStats.model_validate({"namespace": "a", "name": "b", **counts})
    claims_message = evidence.claims_message(Evidence.from_dict({"successRate": 0.9}), stats)
    assert claims_message == f"; its author claims 90%; measured here: {text}"
