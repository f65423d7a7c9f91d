"""Where a mission stands: what was seen, and what was made of it, for those who put it in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kais import conditions
from kais.conditions import DesiredCondition
from kais.reasons import Reason
from kais.resources.mission import Mission
from kais_operator.controllers.mission.decide import attempt_summary
from kais_operator.controllers.mission.decide.attempt_summary import Try
from kais_operator.controllers.mission.decide.attempts import Attempt
from kais_operator.controllers.mission.decide.entrypoint import Obstacle
from kais_operator.controllers.mission.decide.mission_observed import MissionObserved
from kais_operator.controllers.mission.decide.outcome_annotation import Ending


@dataclass(frozen=True)
class Standing:
    """Where a mission stands: what was seen, and what was made of it.

    Attributes:
        observed: what was seen.
        run_id: the run's key; None before it has one.
        attempts: its attempts, oldest first.
        ending: how it ended; None while it goes on.
        obstacle: why the next attempt cannot be started now.
    """

    observed: MissionObserved
    run_id: str | None
    attempts: Sequence[Attempt] = ()
    ending: Ending | None = None
    obstacle: Obstacle | None = None

    @property
    def mission(self) -> Mission:
        """The object."""
        return self.observed.mission

    def tries(self) -> tuple[Try, ...]:
        """Give the attempts as they are told: those of the ending count, when there is one."""
        return (
            self.ending.tries if self.ending is not None else attempt_summary.of_all(self.attempts)
        )


def kept_word(standing: Standing, type_: str) -> DesiredCondition | None:
    """Repeat what was told as done, while the store that could say so again is away."""
    before = standing.mission.condition(type_)
    is_away = standing.observed.ledger.problem is not None
    if not is_away or before is None or before.status != "True":
        return None
    reason = next((known for known in Reason if known.value == before.reason), Reason.RECORDED)
    return conditions.true(type_, reason, before.message)
