"""Wait for a state of an object, as `kubectl wait --for` does.

Parsing and comparing are pure; `wait` reads the watch of the object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kais_cli import errors
from kais_cli.cluster import resource_access
from kais_cli.views import jsonpath

if TYPE_CHECKING:
    from kais_cli.ports import Body, Target
    from kais_cli.session import Session

_FORMS = (
    "condition=TYPE, condition=TYPE=STATUS, jsonpath={PATH}=VALUE, jsonpath={PATH},"
    " create or delete"
)
_CONDITION = re.compile(r"condition=(?P<type>[^=]+)(?:=(?P<status>.+))?")
_PATH = r"""(?!['"])(?:'[^']*'|"[^"]*"|[=!<>]=|[^={}'"])+"""
"""A path; the operators in it, such as `==`, do not begin a value."""
_FIELD = re.compile(
    rf"jsonpath=(?P<path>\{{{_PATH}\}}|{_PATH})(?:=(?!=)(?P<value>(?:==|[^=])+))?", re.DOTALL
)


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

    path: jsonpath.Path
    value: str | None

    def is_reached(self, body: Body | None) -> bool:
        """Whether an object is in this state; None is a deleted one."""
        if body is None:
            return False
        if self.value is None:
            return bool(self.path.select(body, body))
        return self.path.format(body, body) == self.value


@dataclass(frozen=True)
class Created:
    """The object exists."""

    def is_reached(self, body: Body | None) -> bool:
        """Whether an object is in this state; None is one that does not exist."""
        return body is not None


@dataclass(frozen=True)
class Deleted:
    """The object is deleted."""

    def is_reached(self, body: Body | None) -> bool:
        """Whether an object is in this state; None is a deleted one."""
        return body is None


AwaitedState = ConditionState | FieldState | Created | Deleted
_OF_THE_OBJECT: dict[str, AwaitedState] = {"create": Created(), "delete": Deleted()}


def parse(text: str) -> AwaitedState:
    """Parse the value of `--for`.

    Raises:
        UsageError: It has none of the forms of kubectl.
    """
    state = _OF_THE_OBJECT.get(text.lower())
    if state is not None:
        return state
    if match := _CONDITION.fullmatch(text):
        return ConditionState(match["type"], match["status"] or "True")
    if match := _FIELD.fullmatch(text):
        value = match["value"].strip("'\"") if match["value"] is not None else None
        if value != "":
            return FieldState(jsonpath.parse_path(match["path"]), value)
    raise errors.UsageError(f"--for {text}: write {_FORMS}, as kubectl does")


def wait(session: Session, target: Target, text: str, *, timeout: timedelta) -> Body | None:
    """Wait until an object is in the state that `--for` describes; return it, or None if deleted.

    Raises:
        UsageError: `text` has none of the forms of kubectl.
        TimedOut: The timeout passed first.
        Refused: The object does not exist, or was deleted, so it cannot reach the state.
    """
    state = parse(text)
    body = session.cluster.get(target.kind, target.namespace, target.name)
    if state.is_reached(body):
        return body
    if body is None and not isinstance(state, Created):
        raise resource_access.missing(session, target.kind, target.name)
    started_at = session.environment.now()
    for change in session.cluster.watch([target], exist=body is not None):
        if change is not None and state.is_reached(change.body):
            return change.body
        if change is not None and change.body is None:
            raise errors.Refused(f"{_ref(target)} was deleted before it met --for={text}")
        if session.environment.now() - started_at > timeout:
            seconds = int(timeout.total_seconds())
            raise errors.TimedOut(f"{_ref(target)} did not meet --for={text} within {seconds} s")
    raise errors.TimedOut(f"the watch of {_ref(target)} ended before it met --for={text}")


def _ref(target: Target) -> str:
    return f"{target.kind}/{target.namespace}/{target.name}"
