"""Find out why a followed run does not progress, or has not started. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kais import labels
from kais.conditions import ConditionType
from kais.reasons import Reason

if TYPE_CHECKING:
    from kais.resources.base import Resource
    from kais.resources.blueprint_instance import BlueprintInstance
    from kais.resources.formation import Formation
    from kais.resources.mission import Mission

_ACTIVE_REASONS = frozenset({Reason.RUNNING, Reason.RECONCILING})
_PENDING = frozenset({Reason.RECORDING_PENDING, Reason.RUN_OPEN})


_WAITING_FOR = "waiting for "
_WAITING_FOR_CELLS = "waiting for cells: "
_NEXT_CELL = re.compile(r"; (?=\S+-\d+(?::| ))")
"""Precedes the next cell in a message about several."""
_OTHER_CELLS = re.compile(r"; and \d+ more$")
_BACK_OFF = re.compile(r'ImagePullBackOff: Back-off pulling image "[^"]*": ')
"""The kubelet alternates between the error of a pull and this pause, which ends with the error."""

_STARTING = re.compile(r" is being prepared$|: PodReady: the pod is being started$")
"""The messages of a cell in its first seconds; they are printed only once."""


def without_back_off(message: str) -> str:
    """Return a message without the back-off times of the kubelet's image pulls."""
    return _BACK_OFF.sub("", message)


@dataclass(frozen=True)
class WaitReason:
    """Why an object waits: its kind, and the reason and message of its condition."""

    kind: str
    reason: str
    message: str

    @property
    def line(self) -> str:
        """The reason as a line for people."""
        if self.message.startswith(_WAITING_FOR):
            return f"{self.kind} waits for {self.message.removeprefix(_WAITING_FOR)}"
        return f"{self.kind} waits: {self.reason}: {self.message}"

    @property
    def patterns(self) -> frozenset[str]:
        """The message for each cell that it names, with numbers replaced, to compare messages."""
        return frozenset(map(self._pattern, self._cells()))

    def without(self, patterns: Set[str]) -> WaitReason | None:
        """Return the reason for only the cells whose pattern is new; None if none is new."""
        cells = self._cells()
        new_cells = [text for text in cells if self._pattern(text) not in patterns]
        if not new_cells or new_cells == cells:
            return self if new_cells else None
        return replace(self, message=_WAITING_FOR_CELLS + "; ".join(new_cells))

    def _cells(self) -> list[str]:
        if not self.message.startswith(_WAITING_FOR_CELLS):
            return [self.message]
        text = _OTHER_CELLS.sub("", self.message.removeprefix(_WAITING_FOR_CELLS))
        return _NEXT_CELL.split(text)

    def _pattern(self, text: str) -> str:
        state = _STARTING.sub(" starts", without_back_off(text))
        return f"{self.reason}: {re.sub('[0-9]+', '#', state)}"


def of_run(
    instance: BlueprintInstance | None, formation: Formation | None, mission: Mission | None
) -> WaitReason | None:
    """Return what a run waits for, from the object that is closest to the work.

    A mission's summary includes what its start, its checks or its review wait for. Without a
    mission, an instance waits for its cells.
    """
    resource: Resource | None = mission or formation or instance
    if resource is None:
        return None
    condition = resource.condition(
        ConditionType.SUCCEEDED if mission else ConditionType.CELLS_READY
    )
    if condition is None or condition.status == "True" or condition.reason in _ACTIVE_REASONS:
        return None
    if mission is not None and condition.status == "False":
        return None
    return WaitReason(resource.kind, condition.reason, condition.message)


def of_next_run(body: dict[str, Any]) -> Iterator[WaitReason]:
    """Yield what blocks a requested run, from an object that still describes the previous run."""
    kind, metadata = body["kind"], body["metadata"]
    annotations = metadata.get("annotations") or {}
    if annotations.get(labels.RERUN) == annotations.get(labels.RERUN_TAKEN):
        return
    ref = f"{kind}/{metadata['namespace']}/{metadata['name']}"
    if body.get("spec", {}).get("suspend"):
        message = f"{ref} has spec.suspend; the run begins when it is false"
        yield WaitReason(kind, Reason.SUSPENDED, message)
    if annotations.get(labels.RECONCILE) == labels.RECONCILE_SUSPENDED:
        value = f"{labels.RECONCILE}: {labels.RECONCILE_SUSPENDED}"
        yield WaitReason(kind, Reason.SUSPENDED, f"{ref} has {value}; the run begins without it")
    for condition in body.get("status", {}).get("conditions", []):
        is_pending = condition["status"] == "True" or condition["reason"] in _PENDING
        if condition["type"] == ConditionType.RECORDED and not is_pending:
            message = f"the run before is not recorded: {condition['message']}"
            yield WaitReason(kind, condition["reason"], message)
