"""The usage of minds: summed up over the attempts of a run, recorded, and displayed.

The agent runtime reports it in its termination message. It is recorded with the attempt in
annotations, so that it can be summed up when the pods are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from kais import agent_results
from kais.agent_results import AgentUsage, Artifact, FailureClass
from kais_operator.controllers.mission.decide import termination_message
from kais_operator.planning import annotation_values
from kais_operator.planning.plan import Body

_MAX_COST = Decimal(annotation_values.MAX_NUMBER)
_COST_UNIT = Decimal("1e-12")
"""The unit of the agent runtime's ledger."""
_PATH_LENGTH = 1000
"""Characters of a path that are kept; with the folder of the workspace it fits into a line."""


def bounded(usage: AgentUsage) -> AgentUsage:
    """Return a usage within the range of annotations, whatever an endpoint or an image reports."""
    return AgentUsage(
        input_tokens=min(usage.input_tokens, annotation_values.MAX_NUMBER),
        output_tokens=min(usage.output_tokens, annotation_values.MAX_NUMBER),
        turns=min(usage.turns, annotation_values.MAX_NUMBER),
        tool_calls=min(usage.tool_calls, annotation_values.MAX_NUMBER),
        cost=_bounded_cost(usage.cost),
        estimated_cost=_bounded_cost(usage.estimated_cost),
        is_priced=usage.is_priced,
    )


def _bounded_cost(cost: Decimal) -> Decimal:
    return min(cost, _MAX_COST).quantize(_COST_UNIT, ROUND_CEILING).normalize()


def total(usages: Iterable[AgentUsage | None]) -> AgentUsage | None:
    """Sum up the usage of attempts; None if none of them reported any."""
    reported = [bounded(usage) for usage in usages if usage is not None]
    if not reported:
        return None
    summed = AgentUsage(
        input_tokens=sum(usage.input_tokens for usage in reported),
        output_tokens=sum(usage.output_tokens for usage in reported),
        turns=sum(usage.turns for usage in reported),
        tool_calls=sum(usage.tool_calls for usage in reported),
        cost=sum((usage.cost for usage in reported), Decimal(0)),
        estimated_cost=sum((usage.estimated_cost for usage in reported), Decimal(0)),
        is_priced=all(usage.is_priced for usage in reported),
    )
    return bounded(summed)


def with_reserved(usage: AgentUsage | None, reserved: Decimal) -> AgentUsage | None:
    """Raise a usage to what was reserved for it; the difference is an estimate."""
    reported = usage or AgentUsage()
    missing = max(Decimal(0), reserved - reported.cost)
    if missing == 0:
        return usage
    return bounded(reported + AgentUsage(cost=missing, estimated_cost=missing))


def readable_artifacts(artifacts: Sequence[Artifact]) -> tuple[Artifact, ...]:
    """Return the artifacts that a status can show: readable paths, and not too many."""
    paths = [(termination_message.clean(artifact.path), artifact) for artifact in artifacts]
    readable = [
        Artifact(path[:_PATH_LENGTH], min(artifact.size_bytes, annotation_values.MAX_NUMBER))
        for path, artifact in paths
        if path.strip("/")
    ]
    return tuple(readable[: agent_results.MAX_ARTIFACTS])


def dump_usage(usage: AgentUsage) -> Body:
    """Return the record of a usage for an annotation, with costs as text."""
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "turns": usage.turns,
        "toolCalls": usage.tool_calls,
        "cost": format(usage.cost, "f"),
        "estimated": format(usage.estimated_cost, "f"),
        "priced": usage.is_priced,
    }


def parse_usage(record: Mapping[str, Any] | None) -> AgentUsage | None:
    """Parse a record that `dump_usage` returned.

    Raises:
        annotation_values.BROKEN: The annotation was edited and is not valid.
    """
    if record is None:
        return None
    return AgentUsage(
        input_tokens=annotation_values.number(record["input"]),
        output_tokens=annotation_values.number(record["output"]),
        turns=annotation_values.number(record["turns"]),
        tool_calls=annotation_values.number(record["toolCalls"]),
        cost=_decimal(record["cost"]),
        estimated_cost=_decimal(record["estimated"]),
        is_priced=bool(record["priced"]),
    )


def parse_failure(value: Any) -> FailureClass | None:
    """Parse the class of a failure; None for none.

    Raises:
        annotation_values.BROKEN: The annotation was edited and is not valid.
    """
    return FailureClass(value) if value is not None else None


def _decimal(value: Any) -> Decimal:
    try:
        cost = Decimal(annotation_values.parse_text(value))
    except InvalidOperation as exc:
        raise ValueError(f"{value!r} is not a cost") from exc
    if not cost.is_finite() or not 0 <= cost <= _MAX_COST:
        raise ValueError(f"{value!r} is not a cost")
    return cost
