"""Derive the state of a followed run and its changes. Pure.

watch -> RunState -> progress_lines(previous, now) -> lines for people
                  -> run_exit_status.exit_status_of(state), None while the run continues
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from kais import durations
from kais.conditions import ConditionType
from kais.outcomes import Outcome
from kais.reasons import Reason
from kais.resources.base import Condition, Resource
from kais.resources.mission import Mission
from kais_cli.ports import Change
from kais_cli.runs import waiting_reasons
from kais_cli.runs.waiting_reasons import WaitReason
from kais_cli.views import quantities

if TYPE_CHECKING:
    from kais.resources.blueprint_instance import BlueprintInstance
    from kais.resources.formation import Formation

_EXPECTED_REASONS = frozenset(
    {
        Reason.RECONCILING, Reason.WAITING_FOR_CELLS, Reason.WAITING_FOR_FORMATION,
        Reason.WAITING_FOR_PODS, Reason.NOT_REGISTERED, Reason.RECORDING_PENDING,
        Reason.EXTRACTION_PENDING, Reason.RUN_OPEN, Reason.RUNNING, Reason.STARTED,
        Reason.NO_MISSION, Reason.NO_CHECKS, Reason.DELETING, Reason.EXTRACTION_DISABLED,
        Reason.BUDGET_RESERVED,
    }
)  # fmt: skip
"""Reasons of conditions that are not True in a healthy run; they are not reported."""

_SUMMARIES = frozenset({ConditionType.READY, ConditionType.SUCCEEDED})
_EXTRACTION_OVER = frozenset(
    {Reason.EXTRACTION_DISABLED, Reason.EXTRACTION_FAILED, Reason.NOTHING_TO_EXTRACT}
)


@dataclass(frozen=True)
class RunState:
    """The last observed objects of one run; all three have the same name."""

    instance: BlueprintInstance | None = None
    formation: Formation | None = None
    mission: Mission | None = None
    is_deleted: bool = False

    def apply(self, change: Change) -> RunState:
        """Return the state after a change; a deleted object stays as last observed."""
        if change.body is None:
            is_last = change.target.kind == "BlueprintInstance" or (
                change.target.kind == "Mission" and self.instance is None
            )
            return replace(self, is_deleted=self.is_deleted or is_last)
        kind = change.target.kind
        if kind == "BlueprintInstance":
            from kais.resources.blueprint_instance import (  # noqa: PLC0415 (lists load no models of runs)
                BlueprintInstance,
            )

            return replace(self, instance=BlueprintInstance.from_dict(change.body))
        if kind == "Formation":
            from kais.resources.formation import Formation  # noqa: PLC0415 (see above)

            return replace(self, formation=Formation.from_dict(change.body))
        return replace(self, mission=Mission.from_dict(change.body))

    @property
    def phase(self) -> str:
        """The phase of the run."""
        phase = self.mission.status.phase if self.mission else None
        if phase and phase != "Pending":
            return str(phase)
        # The instance runs as soon as its cells are created, while its mission may still wait.
        if self.instance and self.instance.status.phase:
            return str(self.instance.status.phase)
        return "Pending"

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the run; None before its end."""
        if self.mission and self.mission.status.outcome:
            return self.mission.status.outcome
        return self.instance.status.outcome if self.instance else None

    @property
    def attempt(self) -> str | None:
        """The current and the maximum number of attempts, such as `1/3`; None before the first."""
        if self.mission is None or not self.mission.status.attempt:
            return None
        return f"{self.mission.status.attempt}/{self.mission.spec.completion.max_attempts}"

    @property
    def wait(self) -> WaitReason | None:
        """The reason why the run waits; None while it progresses or has ended."""
        if self.is_deleted or self.outcome is not None:
            return None
        return waiting_reasons.of_run(self.instance, self.formation, self.mission)

    def failures(self) -> dict[str, str]:
        """The False conditions that a healthy run does not have, formatted, by message."""
        objects = [o for o in (self.instance, self.formation, self.mission) if o is not None]
        return {
            c.message: _describe_condition(resource, c)
            for resource in objects
            for c in failed_conditions(resource)
        }


def failed_conditions(resource: Resource) -> Iterator[Condition]:
    """Yield the conditions of an object that are False, and would not be in a healthy run."""
    conditions = resource.status.conditions
    details = [c for c in conditions if c.type not in _SUMMARIES]
    return (c for c in details if c.status == "False" and c.reason not in _EXPECTED_REASONS)


def _describe_condition(resource: Resource, condition: Condition) -> str:
    return f"{resource.kind} {condition.type}: {condition.reason}: {condition.message}"


@dataclass(frozen=True)
class Reported:
    """What was printed about a run: the messages of failures, and the patterns of reasons to wait.

    A cell or an image pull may alternate between two states; each is printed once. It is printed
    again after all failures or reasons to wait were over, and in a new attempt.
    """

    failures: frozenset[str] = frozenset()
    waits: frozenset[str] = frozenset()

    def after(self, previous: RunState, now: RunState) -> Reported:
        """Return what was printed after the change from `previous` to `now`."""
        failures = frozenset(map(waiting_reasons.without_back_off, now.failures()))
        waits = now.wait.patterns if now.wait is not None else frozenset()
        is_over = _has_new_attempt(previous, now)
        return Reported(
            failures if is_over or not failures else failures | self.failures,
            waits if is_over or not waits else waits | self.waits,
        )


def progress_lines(previous: RunState, now: RunState, reported: Reported) -> list[str]:
    """Describe the changes, one line each: attempts, failures, and what the run waits for.

    The outcome is part of the report. A message that is printed as a failure is not repeated as a
    reason to wait.
    """
    lines = []
    if _has_new_attempt(previous, now):
        lines.append(f"attempt {now.attempt} started")
    failures = [
        line
        for message, line in now.failures().items()
        if waiting_reasons.without_back_off(message) not in reported.failures
    ]
    lines += failures
    if any(line.startswith(f"Mission {ConditionType.STARTED}:") for line in failures):
        lines += _deadline(now)
    wait = _new_wait(previous, now, reported)
    if wait is not None and wait.message not in now.failures():
        lines.append(wait.line)
    if now.is_deleted and not previous.is_deleted:
        lines.append("deleted while it was followed")
    return lines


def _deadline(now: RunState) -> list[str]:
    """Return the line with the time until which an attempt may still start."""
    mission = now.mission
    if mission is None or mission.status.started_at is None or now.outcome is not None:
        return []
    status, spec = mission.status, mission.spec
    begun = max((each.started_at for each in status.history if each.started_at), default=None)
    end = min(
        mission.status.started_at + durations.parse(spec.completion.timeout),
        (begun or mission.status.started_at) + durations.parse(spec.start_deadline),
    )
    until = f"{end.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return [f"the attempt waits until {until} for that, then the run ends"]


def _has_new_attempt(previous: RunState, now: RunState) -> bool:
    return now.attempt is not None and now.attempt != previous.attempt


def _new_wait(previous: RunState, now: RunState, reported: Reported) -> WaitReason | None:
    """Return the reason to wait, or the part of it that is new.

    Every attempt first waits for its pod; the line about the attempt covers that.
    """
    wait = now.wait
    if wait is None:
        return None
    is_starting = wait.reason == Reason.WAITING_FOR_PODS and _has_new_attempt(previous, now)
    return None if is_starting else wait.without(reported.waits)


def has_final_knowledge(state: RunState) -> bool:
    """Whether the facts of an ended run are stored, or never will be."""
    if state.mission is None or state.is_deleted:
        return True
    extracted = state.mission.condition(ConditionType.KNOWLEDGE_EXTRACTED)
    if extracted is None:
        return False
    return extracted.status == "True" or extracted.reason in _EXTRACTION_OVER


def duration(state: RunState) -> str | None:
    """Return how long the mission took; None before its end."""
    if state.mission is None:
        return None
    status = state.mission.status
    if status.started_at is None or status.finished_at is None:
        return None
    elapsed: timedelta = status.finished_at - status.started_at
    return quantities.format_duration(elapsed)
