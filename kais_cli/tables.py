"""Lists for people; the columns are those of `kubectl get`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kais.conditions import Type
from kais.resources.base import Resource
from kais.resources.blueprint import Blueprint, Parameter
from kais.resources.mission import Mission
from kais_cli import layout, output

if TYPE_CHECKING:
    from kais_cli.ports import Body
    from knowledge_client.models import Fact, RecalledFact

_CONTENT = 100  # characters of a fact in a list; `-o json` has all


def blueprints(found: Iterable[Blueprint], *, now: datetime) -> str:
    """List blueprints."""
    headers = ("NAME", "PARAMS", "REVISION", "SERVED", "USES", "SUCCESS", "CI95", "READY", "AGE")
    return output.table(headers, [_blueprint_row(b, now) for b in found])


def _blueprint_row(blueprint: Blueprint, now: datetime) -> tuple[object, ...]:
    status = blueprint.status
    return (
        blueprint.metadata.name,
        ",".join(starred(p) for p in blueprint.spec.parameters),
        status.latest_revision,
        status.served_revision,
        status.usage_count,
        output.percent(status.avg_success_rate),
        interval(blueprint),
        _status_of(blueprint, Type.READY),
        output.age(blueprint.metadata.creation_timestamp, now),
    )


def starred(parameter: Parameter) -> str:
    """Name a parameter, with an asterisk when it is required."""
    return parameter.name + ("*" if parameter.is_required else "")


def interval(blueprint: Blueprint) -> str | None:
    """Write the 95 % interval of the success rate, `62-97%`; None while nothing counted."""
    found = blueprint.status.success_interval
    return output.interval(found.low, found.high) if found else None


def _status_of(found: Resource, type_: str) -> str | None:
    condition = found.condition(type_)
    return condition.status if condition else None


def missions(found: Iterable[Mission], *, now: datetime) -> str:
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


def facts(found: Sequence[Fact]) -> str:
    """List facts."""
    headers = ("ID", "SCOPE", "KIND", "CONFIDENCE", "SOURCE", "LIFECYCLE", "CONTENT")
    return output.table(headers, [_fact_row(fact) for fact in found])


def waiting(found: Sequence[Fact]) -> str:
    """List facts that wait for a reviewer, and why."""
    headers = ("ID", "SCOPE", "WAITS", "ACTOR", "CONTENT")
    rows = [
        (
            fact.id,
            fact.scope,
            ", ".join(fact.flags) or fact.review,
            fact.source.actor or "",
            _cut(fact.content),
        )
        for fact in found
    ]
    return output.table(headers, rows)


def recalled(found: Sequence[RecalledFact], *, width: int | None) -> str:
    """List what was recalled, best first: a line each, on a terminal a paragraph each."""
    if width is None:
        rows = [(f.rank, f"{f.score:.2f}", f.id, f.scope, f.content) for f in found]
        return output.table(("RANK", "SCORE", "ID", "SCOPE", "CONTENT"), rows)
    return "".join(_paragraph(fact, width) for fact in found)


def explained(found: Sequence[RecalledFact], *, width: int | None) -> str:
    """List what was recalled with the parts of each score, the largest first."""
    lines = []
    for fact in found:
        lines.append(_paragraph(fact, width) if width else _line(fact))
        parts = sorted(fact.parts.items(), key=lambda part: (-part[1], part[0]))
        lines.append("   " + ", ".join(f"{name} {value:.3f}" for name, value in parts) + "\n")
    return "".join(lines)


def _line(fact: RecalledFact) -> str:
    words = " ".join(fact.content.split())
    return f"{fact.rank}  {fact.id}  {fact.scope}  {fact.score:.2f}  {words}\n"


def _paragraph(fact: RecalledFact, width: int) -> str:
    head = f"{fact.rank}  {fact.id}  {fact.scope}  {fact.score:.2f}\n"
    return head + layout.block(" ".join(fact.content.split()), width=width, indent="   ")


def _fact_row(fact: Fact) -> tuple[object, ...]:
    confidence = f"{fact.confidence:.2f}"
    said = (fact.source.type, fact.lifecycle, _cut(fact.content))
    return fact.id, fact.scope, fact.kind, confidence, *said


def _cut(content: str) -> str:
    line = " ".join(content.split())
    return line if len(line) <= _CONTENT else line[: _CONTENT - 1] + "…"


def one(body: Body, form: output.Format) -> str:
    """Write one object in a form for programs."""
    if form is output.Format.NAME:
        return output.names([body], kind=body["kind"])
    return output.dump(output.stored(body), form)
