"""The decided state of a mission, from which its conditions and status are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kais import conditions
from kais.conditions import DesiredCondition
from kais.reasons import Reason
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_record
from kais_operator.controllers.mission.decide.attempt_record import AttemptSummary
from kais_operator.controllers.mission.decide.attempt_state import Attempt
from kais_operator.controllers.mission.decide.entrypoint import NotReady
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.controllers.mission.decide.outcome_annotation import RunOutcome


@dataclass(frozen=True)
class EvaluatedMission:
    """The observed state of a mission in one reconcile, and the decisions about its run.

    Attributes:
        observed: the observed state.
        run_id: the run-id; None before the run starts.
        attempts: the attempts, oldest first.
        run_outcome: how the run ended; None while it continues.
        obstacle: why the next attempt cannot start now.
    """

    observed: MissionObserved
    run_id: str | None
    attempts: Sequence[Attempt] = ()
    run_outcome: RunOutcome | None = None
    obstacle: NotReady | None = None

    @property
    def mission(self) -> Mission:
        """The Mission object."""
        return self.observed.mission

    def summaries(self) -> tuple[AttemptSummary, ...]:
        """Return the attempts as the ended run recorded them; before that, as they are observed."""
        return (
            self.run_outcome.attempts
            if self.run_outcome is not None
            else attempt_record.summarise_all(self.attempts)
        )


def keep_last_true_condition(evaluated: EvaluatedMission, type_: str) -> DesiredCondition | None:
    """Return the current condition if it is True and the knowledge service does not answer.

    Otherwise an outage would turn a condition that still holds to False.
    """
    last_condition = evaluated.mission.condition(type_)
    is_service_unavailable = evaluated.observed.ledger.problem is not None
    if not is_service_unavailable or last_condition is None or last_condition.status != "True":
        return None
    reason = next(
        (candidate for candidate in Reason if candidate.value == last_condition.reason),
        Reason.RECORDED,
    )
    return conditions.true(type_, reason, last_condition.message)
