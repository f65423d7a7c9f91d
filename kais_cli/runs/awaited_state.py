"""Wait for a state of an object, as `kubectl wait --for` does.

Parsing and comparing are pure; `wait` reads the watch of the object.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.cluster import resource_access
from kais_cli.views import jsonpath

if TYPE_CHECKING:
    from kais_cli.ports import Body, Target
    from kais_cli.session import Session

_FORMS = "condition=TYPE, condition=TYPE=STATUS, jsonpath={PATH}=VALUE, jsonpath={PATH} or delete"


@dataclass(frozen=True)
class ConditionState:
    """A condition has a status, for the current generation; both are compared without case."""

    type: str
    status: str

    def is_reached(self, body: Body | None) -> bool:
        """Whether an object is in this state; None is a deleted one."""
        if body is None:
            return False
        generation = body["metadata"].get("generation", 0)
        return any(
            condition["type"].lower() == self.type.lower()
            and condition["status"].lower() == self.status.lower()
            and condition.get("observedGeneration", generation) >= generation
            for condition in body.get("status", {}).get("conditions", [])
        )


@dataclass(frozen=True)
class FieldState:
    """A path selects a value, any if `value` is None."""

    path: jsonpath.Template
    value: str | None

    def is_reached(self, body: Body | None) -> bool:
        """Whether an object is in this state; None is a deleted one."""
        text = "" if body is None else self.path.format(body)
        return bool(text) if self.value is None else body is not None and text == self.value


@dataclass(frozen=True)
class Deleted:
    """The object is deleted."""

    def is_reached(self, body: Body | None) -> bool:
        """Whether an object is in this state; None is a deleted one."""
        return body is None


AwaitedState = ConditionState | FieldState | Deleted


def parse(text: str) -> AwaitedState:
    """Parse the value of `--for`.

    Raises:
        UsageError: It has none of the forms of kubectl.
    """
    kind, _, expression = text.partition("=")
    if text.lower() == "delete":
        return Deleted()
    if kind.lower() == "condition" and expression:
        type_, _, status = expression.partition("=")
        return ConditionState(type_, status or "True")
    if kind.lower() == "jsonpath" and expression:
        path, closing, value = expression.rpartition("}")
        has_value = value.startswith("=") and len(value) > 1
        if closing and (has_value or not value):
            template = jsonpath.parse(path + closing)
            return FieldState(template, value[1:].strip("'\"") if has_value else None)
    raise errors.UsageError(f"--for {text}: write {_FORMS}, as kubectl does")


def wait(session: Session, target: Target, text: str, *, timeout: timedelta) -> Body | None:
    """Wait until an object is in the state that `--for` describes; return it, or None if deleted.

    Raises:
        UsageError: `text` has none of the forms of kubectl.
        TimedOut: The timeout passed first.
        Refused: The object does not exist, or was deleted, so it cannot reach the state.
    """
    state = parse(text)
    if isinstance(state, Deleted) and _read(session, target) is None:
        return None
    resource_access.get(session, target.kind, target.name)
    started_at = session.environment.now()
    for change in session.cluster.watch([target]):
        if change is not None and state.is_reached(change.body):
            return change.body
        if change is not None and change.body is None:
            raise errors.Refused(f"{_ref(target)} was deleted before it had {text}")
        if session.environment.now() - started_at > timeout:
            seconds = int(timeout.total_seconds())
            raise errors.TimedOut(f"{_ref(target)} has not had {text} within {seconds} s")
    raise errors.TimedOut(f"the watch of {_ref(target)} ended before it had {text}")


def _read(session: Session, target: Target) -> Body | None:
    return session.cluster.get(target.kind, target.namespace, target.name)


def _ref(target: Target) -> str:
    return f"{target.kind}/{target.namespace}/{target.name}"
