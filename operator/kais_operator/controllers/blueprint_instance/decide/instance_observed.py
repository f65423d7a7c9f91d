"""What one look at a use of a Blueprint finds: the input of its decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kais import blueprints
from kais.conditions import DesiredCondition
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.planning.plan import Body


@dataclass(frozen=True)
class Choice:
    """The revision that a use wants.

    Attributes:
        number: None when there is nothing to choose from.
        problem: what the condition says then, None when there is a number.
        requeue_after: when to look again then.
        note: what else the condition says of the choice, such as an update that waits.
    """

    number: int | None = None
    problem: DesiredCondition | None = None
    requeue_after: timedelta | None = None
    note: str = ""


@dataclass(frozen=True)
class BlueprintInstanceObserved:
    """A use as one look found it.

    Attributes:
        choice: the revision that it wants, or why there is none.
        revision: that revision, None when it does not exist.
        rendering: what the template gave, or every violation; None without a revision.
        retry_after: when another try of a rendering that passed a limit is made, if it may help.
        formation: what stands under the Formation's name, whoever made it.
        mission: what stands under the Mission's name.
        ledger_outcome: how the ledger says that the begun run ended; only asked when the Mission
            is missing.
        copied: annotations of the run of another object, which the use was copied from; `instance`
            is without them.
        is_run_told: whether the store was told of a run without a mission, or refused it for good.
    """

    instance: BlueprintInstance
    choice: Choice
    revision: BlueprintRevision | None = None
    rendering: blueprints.Rendering | None = None
    retry_after: timedelta | None = None
    formation: Body | None = None
    mission: Body | None = None
    ledger_outcome: str | None = None
    is_run_told: bool = False
    copied: Sequence[str] = ()
