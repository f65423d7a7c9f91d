"""The kinds as columns and as pages for people; the columns are those of `kubectl get`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kais.conditions import Type
from kais.resources.base import Resource
from kais.resources.blueprint import Blueprint, Parameter
from kais.resources.mission import Mission
from kais_cli import output

if TYPE_CHECKING:
    from kais_cli.ports import Body
    from knowledge_client.models import Fact

_CONTENT = 100  # characters of a fact in a list; `-o json` has all


def blueprints(found: Sequence[Blueprint], *, now: datetime) -> str:
    """List blueprints."""
    headers = ("NAME", "PARAMS", "REVISION", "SERVED", "USES", "SUCCESS", "CI95", "READY", "AGE")
    return output.table(headers, [_blueprint_row(b, now) for b in found])


def _blueprint_row(blueprint: Blueprint, now: datetime) -> tuple[object, ...]:
    status = blueprint.status
    return (
        blueprint.metadata.name,
        ",".join(_starred(p) for p in blueprint.spec.parameters),
        status.latest_revision,
        status.served_revision,
        status.usage_count,
        output.percent(status.avg_success_rate),
        _interval(blueprint),
        _status_of(blueprint, Type.READY),
        output.age(blueprint.metadata.creation_timestamp, now),
    )


def _starred(parameter: Parameter) -> str:
    return parameter.name + ("*" if parameter.is_required else "")


def _interval(blueprint: Blueprint) -> str | None:
    interval = blueprint.status.success_interval
    return f"{interval.low * 100:.0f}-{interval.high * 100:.0f}%" if interval else None


def _status_of(found: Resource, type_: str) -> str | None:
    condition = found.condition(type_)
    return condition.status if condition else None


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
        (_starred(p), p.type, output.shown(p.default) if p.has_default else None, *_about(p))
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
            f" (95 % interval {_interval(found) or 'unknown'})"
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


def missions(found: Sequence[Mission], *, now: datetime) -> str:
    """List missions."""
    headers = ("NAME", "STATUS", "OUTCOME", "ATTEMPT", "FACTS", "AGE")
    return output.table(headers, [_mission_row(m, now) for m in found])


def _mission_row(mission: Mission, now: datetime) -> tuple[object, ...]:
    status = mission.status
    return (
        mission.metadata.name,
        status.phase,
        status.outcome,
        f"{status.attempt}/{mission.spec.completion.max_attempts}" if status.attempt else None,
        status.display.facts if status.display else None,
        output.age(mission.metadata.creation_timestamp, now),
    )


def mission(found: Mission) -> str:
    """Show one mission: the work, its attempts and checks, its result, what holds."""
    return "".join(_mission_parts(found))


def _mission_parts(found: Mission) -> Iterator[str]:
    spec, status = found.spec, found.status
    yield f"{found.metadata.name} in {found.metadata.namespace}: {status.phase or 'Pending'}"
    yield f", outcome {status.outcome}\n" if status.outcome else "\n"
    yield f"\nObjective:\n{output.indented(spec.objective)}"
    yield f"\nRun: {status.run_id or 'not opened'}, in {spec.formation_ref or spec.cell_ref}\n"
    if status.history:
        rows = [(a.attempt, a.started_at, a.finished_at, a.result) for a in status.history]
        attempts = output.table(("ATTEMPT", "STARTED", "FINISHED", "RESULT"), rows)
        yield f"\nAttempts:\n{output.indented(attempts)}"
    if status.checks:
        checks = output.table(
            ("CHECK", "STATUS", "MESSAGE"), [(c.name, c.status, c.message) for c in status.checks]
        )
        yield f"\nChecks:\n{output.indented(checks)}"
    if status.result:
        cut = " (cut)" if status.result_truncated else ""
        yield f"\nResult{cut}:\n{output.indented(output.readable(status.result))}"
    if status.knowledge:
        used = status.knowledge
        yield (
            f"\nKnowledge: {used.injected or 0} facts given (receipt {used.receipt or 'none'}),"
            f" {used.extracted or 0} extracted\n"
        )
    yield f"\nConditions:\n{conditions(found)}"


def facts(found: Sequence[Fact]) -> str:
    """List facts."""
    headers = ("ID", "SCOPE", "KIND", "CONFIDENCE", "SOURCE", "LIFECYCLE", "CONTENT")
    return output.table(headers, [_fact_row(fact) for fact in found])


def _fact_row(fact: Fact) -> tuple[object, ...]:
    content = " ".join(fact.content.split())
    cut = content if len(content) <= _CONTENT else content[: _CONTENT - 1] + "…"
    confidence = f"{fact.confidence:.2f}"
    return fact.id, fact.scope, fact.kind, confidence, fact.source.type, fact.lifecycle, cut


def one(body: Body, form: output.Format) -> str:
    """Write one object in a form for programs."""
    if form is output.Format.NAME:
        return output.names([body], kind=body["kind"])
    return output.dump(output.stored(body), form)
