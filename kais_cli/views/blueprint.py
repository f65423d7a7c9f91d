"""Format blueprints for people: one line each, or a page of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kais.conditions import ConditionType
from kais.resources.blueprint import Blueprint, Parameter
from kais_cli.views import conditions, output, quantities, table_layout, text_layout

BLUEPRINT_HEADERS = (
    *("NAME", "PARAMS", "REVISION", "SERVED"),
    *("USES", "SUCCESS", "CI95", "READY", "REASON", "AGE"),
)


def blueprint_row(blueprint: Blueprint, *, now: datetime) -> tuple[object, ...]:
    """Return the cells of a blueprint in a list."""
    status = blueprint.status
    ready = blueprint.condition(ConditionType.READY)
    return (
        blueprint.metadata.name,
        ", ".join(mark_required(p) for p in blueprint.spec.parameters),
        status.latest_revision,
        status.served_revision,
        status.usage_count,
        quantities.format_percent(status.avg_success_rate),
        format_success_interval(blueprint),
        ready.status if ready else None,
        ready.reason if ready else None,
        quantities.format_age(blueprint.metadata.creation_timestamp, now),
    )


def mark_required(parameter: Parameter) -> str:
    """Return the name of a parameter, with an asterisk if it is required."""
    return parameter.name + ("*" if parameter.is_required else "")


def format_success_interval(blueprint: Blueprint) -> str | None:
    """Format the 95 % interval of the success rate, such as `62-97%`; None if no run counts."""
    success_interval = blueprint.status.success_interval
    return (
        quantities.format_interval(success_interval.low, success_interval.high)
        if success_interval
        else None
    )


def format_blueprint(blueprint: Blueprint) -> str:
    """Format one blueprint: its description, parameters, statistics and conditions."""
    parts = [f"{blueprint.metadata.name} in {blueprint.metadata.namespace}\n"]
    if blueprint.spec.description:
        parts.append(text_layout.indent(blueprint.spec.description))
    parts += ["\nParameters (* is required):\n", _parameters(blueprint.spec.parameters)]
    parts += ["\nRevisions:\n", text_layout.indent(_revisions(blueprint))]
    parts += ["\nUses:\n", text_layout.indent(_uses(blueprint))]
    parts += ["\nConditions:\n", conditions.format_conditions(blueprint)]
    return "".join(parts)


def _parameters(parameters: Sequence[Parameter]) -> str:
    if not parameters:
        return "  none\n"
    rows = [
        (
            mark_required(p),
            p.type,
            output.json_line(p.default) if p.has_default else None,
            *_constraints(p),
        )
        for p in parameters
    ]
    return text_layout.indent(
        table_layout.format_table(("NAME", "TYPE", "DEFAULT", "ALLOWED", "DESCRIPTION"), rows)
    )


def _constraints(parameter: Parameter) -> tuple[str, str | None]:
    allowed = [", ".join(output.json_line(v) for v in parameter.values or [])]
    bounds = (
        ("≥ ", parameter.min),
        ("≤ ", parameter.max),
        ("matches ", parameter.pattern),
        ("length ≥ ", parameter.min_length),
        ("length ≤ ", parameter.max_length),
        ("items ≥ ", parameter.min_items),
        ("items ≤ ", parameter.max_items),
    )
    allowed += [
        f"{label}{_without_fraction(value)}" for label, value in bounds if value is not None
    ]
    return ", ".join(part for part in allowed if part), parameter.description


def _without_fraction(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _revisions(blueprint: Blueprint) -> str:
    status = blueprint.status
    compiled = blueprint.condition(ConditionType.COMPILED)
    lines = [
        (
            f"newest {status.latest_revision or 'none'}, served {status.served_revision or 'none'},"
            f" compiled {compiled.status if compiled else 'Unknown'}"
        )
    ]
    lines += [f"{v.version}: {v.changes or 'first'}" for v in status.versions[:5]]
    return "\n".join(lines)


def _uses(blueprint: Blueprint) -> str:
    status = blueprint.status
    count = status.usage_count or 0
    lines = [
        (
            f"{count} {'use' if count == 1 else 'uses'}: {status.succeeded or 0} succeeded,"
            f" {status.failed or 0} failed, {status.excluded or 0} excluded,"
            f" {status.running or 0} without outcome"
        )
    ]
    if status.avg_success_rate is None:
        lines.append("success rate: unknown, nothing counted so far")
    else:
        lines.append(
            f"success rate: {quantities.format_percent(status.avg_success_rate)}"
            f" (95 % interval {format_success_interval(blueprint) or 'unknown'})"
        )
    if status.median_duration_seconds is not None:
        lines.append(f"median duration: {status.median_duration_seconds:.0f} s")
    if status.last_used is not None:
        lines.append(f"last used: {status.last_used:%Y-%m-%d %H:%M} UTC")
    return "\n".join(lines)
