"""Which changes of a condition are an Event, case by case."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kais.reasons import Reason
from kais.resources.base import Condition
from kais.resources.formation import Formation
from kais_operator.planning import status_and_events
from tests.fakes import teams
from tests.fakes.decisions import stored

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
State = tuple[str, Reason]
STARTING: State = ("Unknown", Reason.RECONCILING)
WAITING: State = ("False", Reason.WAITING_FOR_CELLS)
READY: State = ("True", Reason.READY)
TAKEN: State = ("False", Reason.NAME_TAKEN)
FAILED: State = ("False", Reason.APPLY_FAILED)

CASES: dict[str, tuple[State | None, State, str | None]] = {
    "a new object that waits is no Event": (None, WAITING, None),
    "a new object that is ready is a Normal Event": (None, READY, "Normal"),
    "a new object in trouble is a Warning": (None, TAKEN, "Warning"),
    "work that has started and waits now is no Event": (STARTING, WAITING, None),
    "work that has started and meets trouble is a Warning": (STARTING, TAKEN, "Warning"),
    "work that has started and is done is a Normal Event": (STARTING, READY, "Normal"),
    "the same state is no Event": (WAITING, WAITING, None),
    "readiness is a Normal Event": (WAITING, READY, "Normal"),
    "readiness that is lost is a Normal Event": (READY, WAITING, "Normal"),
    "readiness that ends in trouble is a Warning": (READY, TAKEN, "Warning"),
    "another trouble is a Warning": (TAKEN, FAILED, "Warning"),
    "trouble that ends in a wait is no Event": (TAKEN, WAITING, None),
}


def condition(state: State) -> Condition:
    status, reason = state
    return Condition(
        type="Ready",
        status=status,
        reason=reason,
        message="m",
        observed_generation=1,
        last_transition_time=NOW,
    )


@pytest.mark.parametrize(("old_state", "retry_after", "severity"), CASES.values(), ids=CASES)
def test_a_transition(old_state: State | None, retry_after: State, severity: str | None) -> None:
    body = stored(teams.team())
    if old_state is not None:
        body["status"] = {"conditions": [condition(old_state).to_dict()]}
    events = status_and_events.transition_events(
        Formation.from_dict(body), [condition(retry_after)], types=("Ready",)
    )
    assert [event.type for event in events] == ([] if severity is None else [severity])
