"""Format lists for people, with the columns of `kubectl get`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kais.conditions import ConditionType
from kais.resources.base import Resource
from kais.resources.blueprint import Blueprint, Parameter
from kais.resources.mission import Mission
from kais_cli.views import output

if TYPE_CHECKING:
    from kais_cli.ports import Body


BLUEPRINT_HEADERS = (
    *("NAME", "PARAMS", "REVISION", "SERVED"),
    *("USES", "SUCCESS", "CI95", "READY", "AGE"),
)
MISSION_HEADERS = ("NAME", "STATUS", "OUTCOME", "ATTEMPT", "FACTS", "AGE")


def blueprint_row(blueprint: Blueprint, *, now: datetime) -> tuple[object, ...]:
    """Return the cells of a blueprint in a list."""
    status = blueprint.status
    return (
        blueprint.metadata.name,
        ",".join(mark_required(p) for p in blueprint.spec.parameters),
        status.latest_revision,
        status.served_revision,
        status.usage_count,
        output.format_percent(status.avg_success_rate),
        format_success_interval(blueprint),
        _status_of(blueprint, ConditionType.READY),
        output.format_age(blueprint.metadata.creation_timestamp, now),
    )


def mark_required(parameter: Parameter) -> str:
    """Return the name of a parameter, with an asterisk if it is required."""
    return parameter.name + ("*" if parameter.is_required else "")


def format_success_interval(blueprint: Blueprint) -> str | None:
    """Format the 95 % interval of the success rate, such as `62-97%`; None if no run counts."""
    success_interval = blueprint.status.success_interval
    return (
        output.format_interval(success_interval.low, success_interval.high)
        if success_interval
        else None
    )


def _status_of(resource: Resource, type_: str) -> str | None:
    condition = resource.condition(type_)
    return condition.status if condition else None


def mission_row(mission: Mission, *, now: datetime) -> tuple[object, ...]:
    """Return the cells of a mission in a list."""
    status = mission.status
    return (
        mission.metadata.name,
        status.phase,
        status.outcome,
        f"{status.attempt}/{mission.spec.completion.max_attempts}" if status.attempt else None,
        status.display.facts if status.display else None,
        output.format_age(mission.metadata.creation_timestamp, now),
    )


def dump_object(body: Body, form: output.Format) -> str:
    """Format one object for programs."""
    if form is output.Format.NAME:
        return output.format_names([body], kind=body["kind"])
    return output.dump(output.without_managed_fields(body), form)
