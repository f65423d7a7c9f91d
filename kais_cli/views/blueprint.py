"""Format a blueprint or a mission as a page for people, with status and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kais.conditions import ConditionType
from kais.resources.base import Resource
from kais.resources.blueprint import Blueprint, Parameter
from kais.resources.mission import Mission
from kais_cli.facts import tables
from kais_cli.views import agent_usage, output, text_layout
from kais_cli.views.tables import format_success_interval, mark_required


def format_blueprint(blueprint: Blueprint) -> str:
    """Format one blueprint: its description, parameters, statistics and conditions."""
    parts = [f"{blueprint.metadata.name} in {blueprint.metadata.namespace}\n"]
    if blueprint.spec.description:
        parts.append(output.indent(blueprint.spec.description))
    parts += ["\nParameters (* is required):\n", _parameters(blueprint.spec.parameters)]
    parts += ["\nRevisions:\n", output.indent(_revisions(blueprint))]
    parts += ["\nUses:\n", output.indent(_uses(blueprint))]
    parts += ["\nConditions:\n", format_conditions(blueprint)]
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
    return output.indent(
        output.format_table(("NAME", "TYPE", "DEFAULT", "ALLOWED", "DESCRIPTION"), rows)
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
    lines = [
        (
            f"{status.usage_count or 0} uses: {status.succeeded or 0} succeeded,"
            f" {status.failed or 0} failed, {status.excluded or 0} excluded,"
            f" {status.running or 0} without outcome"
        )
    ]
    if status.avg_success_rate is None:
        lines.append("success rate: unknown, nothing counted so far")
    else:
        lines.append(
            f"success rate: {output.format_percent(status.avg_success_rate)}"
            f" (95 % interval {format_success_interval(blueprint) or 'unknown'})"
        )
    if status.median_duration_seconds is not None:
        lines.append(f"median duration: {status.median_duration_seconds:.0f} s")
    if status.last_used is not None:
        lines.append(f"last used: {status.last_used:%Y-%m-%d %H:%M} UTC")
    return "\n".join(lines)


def format_conditions(resource: Resource) -> str:
    """Format the conditions of an object with their messages."""
    rows = [(c.type, c.status, c.reason, c.message) for c in resource.status.conditions]
    if not rows:
        return "  none yet: the operator has not looked at it\n"
    return output.indent(output.format_table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows))


def format_mission(mission: Mission, *, width: int | None = None) -> str:
    """Format one mission: the work, its attempts and checks, its result and conditions."""
    return "".join(_mission_sections(mission, width))


def _mission_sections(mission: Mission, width: int | None) -> Iterator[str]:
    spec, status = mission.spec, mission.status
    yield f"{mission.metadata.name} in {mission.metadata.namespace}: {status.phase or 'Pending'}"
    yield f", outcome {status.outcome}\n" if status.outcome else "\n"
    yield f"\nObjective:\n{text_layout.wrap_text(spec.objective, width=width, indent='  ')}"
    yield f"\nRun: {status.run_id or 'not opened'}, in {spec.formation_ref or spec.cell_ref}\n"
    if status.history:
        timestamp = tables.format_timestamp
        earlier_runs = [a.run_id for a in status.history if a.run_id]
        rows = [
            (
                earlier_runs.index(a.run_id) + 1 if a.run_id else len(earlier_runs) + 1,
                a.attempt,
                timestamp(a.started_at),
                timestamp(a.finished_at),
                a.result,
            )
            for a in status.history
        ]
        headers = ("RUN", "ATTEMPT", "STARTED (UTC)", "FINISHED (UTC)", "RESULT")
        first = 0 if earlier_runs else 1  # with one run, its number says nothing
        attempts = output.format_table(headers[first:], [row[first:] for row in rows])
        yield f"\nAttempts:\n{output.indent(attempts)}"
    if status.checks:
        checks = output.format_table(
            ("CHECK", "STATUS", "MESSAGE"), [(c.name, c.status, c.message) for c in status.checks]
        )
        yield f"\nChecks:\n{output.indent(checks)}"
    if status.result:
        cut = " (cut)" if status.result_truncated else ""
        yield f"\nResult{cut}:\n{output.format_result(status.result, width=width)}"
    if status.knowledge:
        mission_knowledge = status.knowledge
        yield (
            f"\nKnowledge: {mission_knowledge.injected or 0} facts given"
            f" (receipt {mission_knowledge.receipt or 'none'}),"
            f" {mission_knowledge.extracted or 0} extracted,"
            f" {mission_knowledge.remembered or 0} stored by cells\n"
        )
    if status.turns is not None:
        yield f"\nAgent: {agent_usage.format_usage(status)}\n"
    if status.artifacts:
        files = [(file.path, file.size_bytes) for file in status.artifacts]
        yield f"\nFiles:\n{output.indent(output.format_table(('PATH', 'BYTES'), files))}"
    yield f"\nConditions:\n{format_conditions(mission)}"
