"""One object as a page for people: what it is, how it went, and what holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kais.conditions import Type
from kais.resources.base import Resource
from kais.resources.blueprint import Blueprint, Parameter
from kais.resources.mission import Mission
from kais_cli.facts import tables
from kais_cli.views import output, text_layout
from kais_cli.views.tables import interval, starred


def blueprint(found: Blueprint) -> str:
    """Show one blueprint: what it is for, what it takes, how its uses went, what holds."""
    parts = [f"{found.metadata.name} in {found.metadata.namespace}\n"]
    if found.spec.description:
        parts.append(output.indented(found.spec.description))
    parts += ["\nParameters (* is required):\n", _parameters(found.spec.parameters)]
    parts += ["\nRevisions:\n", output.indented(_revisions(found))]
    parts += ["\nUses:\n", output.indented(_uses(found))]
    parts += ["\nConditions:\n", conditions(found)]
    return "".join(parts)


def _parameters(parameters: Sequence[Parameter]) -> str:
    if not parameters:
        return "  none\n"
    rows = [
        (starred(p), p.type, output.shown(p.default) if p.has_default else None, *_about(p))
        for p in parameters
    ]
    return output.indented(
        output.table(("NAME", "TYPE", "DEFAULT", "ALLOWED", "DESCRIPTION"), rows)
    )


def _about(parameter: Parameter) -> tuple[str, str | None]:
    allowed = [", ".join(output.shown(v) for v in parameter.values or [])]
    bounds = (
        ("≥ ", parameter.min),
        ("≤ ", parameter.max),
        ("matches ", parameter.pattern),
        ("length ≥ ", parameter.min_length),
        ("length ≤ ", parameter.max_length),
        ("items ≥ ", parameter.min_items),
        ("items ≤ ", parameter.max_items),
    )
    allowed += [f"{word}{_plain(value)}" for word, value in bounds if value is not None]
    return ", ".join(part for part in allowed if part), parameter.description


def _plain(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _revisions(found: Blueprint) -> str:
    status = found.status
    compiled = found.condition(Type.COMPILED)
    lines = [
        (
            f"newest {status.latest_revision or 'none'}, served {status.served_revision or 'none'},"
            f" compiled {compiled.status if compiled else 'Unknown'}"
        )
    ]
    lines += [f"{v.version}: {v.changes or 'first'}" for v in status.versions[:5]]
    return "\n".join(lines)


def _uses(found: Blueprint) -> str:
    status = found.status
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
            f"success rate: {output.percent(status.avg_success_rate)}"
            f" (95 % interval {interval(found) or 'unknown'})"
        )
    if status.median_duration_seconds is not None:
        lines.append(f"median duration: {status.median_duration_seconds:.0f} s")
    if status.last_used is not None:
        lines.append(f"last used: {status.last_used:%Y-%m-%d %H:%M} UTC")
    return "\n".join(lines)


def conditions(found: Resource) -> str:
    """List an object's conditions with their words."""
    rows = [(c.type, c.status, c.reason, c.message) for c in found.status.conditions]
    if not rows:
        return "  none yet: the operator has not looked at it\n"
    return output.indented(output.table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows))


def mission(found: Mission, *, width: int | None = None) -> str:
    """Show one mission: the work, its attempts and checks, its result, what holds."""
    return "".join(_mission_parts(found, width))


def _mission_parts(found: Mission, width: int | None) -> Iterator[str]:
    spec, status = found.spec, found.status
    yield f"{found.metadata.name} in {found.metadata.namespace}: {status.phase or 'Pending'}"
    yield f", outcome {status.outcome}\n" if status.outcome else "\n"
    yield f"\nObjective:\n{text_layout.block(spec.objective, width=width, indent='  ')}"
    yield f"\nRun: {status.run_id or 'not opened'}, in {spec.formation_ref or spec.cell_ref}\n"
    if status.history:
        when = tables.moment
        rows = [
            (a.attempt, when(a.started_at), when(a.finished_at), a.result) for a in status.history
        ]
        attempts = output.table(("ATTEMPT", "STARTED (UTC)", "FINISHED (UTC)", "RESULT"), rows)
        yield f"\nAttempts:\n{output.indented(attempts)}"
    if status.checks:
        checks = output.table(
            ("CHECK", "STATUS", "MESSAGE"), [(c.name, c.status, c.message) for c in status.checks]
        )
        yield f"\nChecks:\n{output.indented(checks)}"
    if status.result:
        cut = " (cut)" if status.result_truncated else ""
        yield f"\nResult{cut}:\n{output.result(status.result, width=width)}"
    if status.knowledge:
        used = status.knowledge
        yield (
            f"\nKnowledge: {used.injected or 0} facts given (receipt {used.receipt or 'none'}),"
            f" {used.extracted or 0} extracted\n"
        )
    yield f"\nConditions:\n{conditions(found)}"
