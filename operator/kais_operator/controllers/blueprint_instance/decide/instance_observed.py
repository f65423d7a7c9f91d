"""The observed state of an instance: the inputs of its decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kais import blueprint_rendering
from kais.conditions import DesiredCondition
from kais.resources.blueprint_instance import BlueprintInstance
from kais.resources.blueprint_revision import BlueprintRevision
from kais_operator.planning.plan import Body


@dataclass(frozen=True)
class Choice:
    """The choice of a revision for an instance.

    Attributes:
        number: the chosen number; None when there is nothing to choose from.
        problem: the condition if there is no number; None when there is one.
        requeue_after: delay until the next reconcile if there is no number.
        note: an addition to the condition, for example about an update that waits.
        lot: the canary for which the number was drawn; None without a lot.
    """

    number: int | None = None
    problem: DesiredCondition | None = None
    requeue_after: timedelta | None = None
    note: str = ""
    lot: int | None = None


@dataclass(frozen=True)
class BlueprintInstanceObserved:
    """The observed state of an instance.

    Attributes:
        instance: the object.
        choice: the revision that it uses, or why there is none.
        revision: that revision; None when it does not exist.
        rendering: what the template renders to, or every violation; None without a revision.
        retry_after: delay until a rendering that exceeded a limit is tried again; None if that
            does not help.
        formation: the object with the Formation's name, of any owner.
        mission: the object with the Mission's name.
        ledger_outcome: how the started run ended as recorded in the ledger; read only when the
            Mission is missing.
        is_run_registered: whether the knowledge service has a run without a mission, or permanently
            rejects it.
        copied: run annotations that were copied from another object; `instance` is without them.
        is_mission_copied: the run annotations of the Mission were copied from another object; known
            only if the instance may take over its run.
    """

    instance: BlueprintInstance
    choice: Choice
    revision: BlueprintRevision | None = None
    rendering: blueprint_rendering.Rendering | None = None
    retry_after: timedelta | None = None
    formation: Body | None = None
    mission: Body | None = None
    ledger_outcome: str | None = None
    is_run_registered: bool = False
    copied: Sequence[str] = ()
    is_mission_copied: bool = False
