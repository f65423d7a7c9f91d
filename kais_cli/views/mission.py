"""Format missions for people: one line each, or a page of one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kais.resources.base import ObjectMeta
from kais.resources.check import ReviewResult, ReviewStatus
from kais.resources.mission import KnowledgeUse, Mission
from kais_cli.facts import tables
from kais_cli.views import agent_usage, conditions, quantities, table_layout, text_layout

MISSION_HEADERS = ("NAME", "STATUS", "OUTCOME", "REASON", "ATTEMPT", "FACTS", "COST", "AGE")
"""The columns of `kubectl get missions`."""


def mission_row(mission: Mission, *, now: datetime) -> tuple[object, ...]:
    """Return the cells of a mission in a list."""
    status = mission.status
    return (
        mission.metadata.name,
        status.phase,
        status.outcome,
        next((c.reason for c in status.conditions if c.type == "Succeeded"), None),
        f"{status.attempt}/{mission.spec.completion.max_attempts}" if status.attempt else None,
        status.display.facts if status.display else None,
        status.display.cost if status.display else None,
        quantities.format_age(mission.metadata.creation_timestamp, now),
    )


def format_mission(mission: Mission, *, width: int | None = None) -> str:
    """Format one mission: the work, its attempts and checks, its result and conditions."""
    return "".join(_mission_sections(mission, width))


def _review(review: ReviewResult, metadata: ObjectMeta) -> str:
    """Format a verdict with its author, or the commands that give one."""
    if review.status is ReviewStatus.PENDING:
        subject = f"{metadata.name} -n {metadata.namespace}"
        return (
            f"{review.status}; answer with `kais mission approve {subject}` or"
            f" `kais mission reject {subject} --feedback TEXT`"
        )
    author = f"by {review.by}" if review.by else "(the reviewer is not on record)"
    return f"{review.status} {author}{f': {review.feedback}' if review.feedback else ''}"


def _knowledge(knowledge: KnowledgeUse, metadata: ObjectMeta) -> str:
    """Format the numbers of recalled and stored facts; a running agent has only the receipt."""
    receipt = knowledge.receipt
    recalled = f"{knowledge.injected or 0} facts recalled (receipt {receipt or 'none'})"
    if knowledge.injected is None and receipt is not None:
        recalled = f"recalled what `kais receipt show {receipt} -n {metadata.namespace}` lists"
    left = f"{knowledge.extracted or 0} extracted, {knowledge.remembered or 0} stored by cells"
    return f"{recalled}, {left}"


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
        attempts = table_layout.format_table(headers[first:], [row[first:] for row in rows])
        yield f"\nAttempts:\n{text_layout.indent(attempts)}"
    if status.checks:
        checks = table_layout.format_table(
            ("CHECK", "STATUS", "MESSAGE"), [(c.name, c.status, c.message) for c in status.checks]
        )
        yield f"\nChecks:\n{text_layout.indent(checks)}"
    if status.review:
        yield f"\nReview: {_review(status.review, mission.metadata)}\n"
    if status.result:
        cut = " (cut)" if status.result_truncated else ""
        yield f"\nResult{cut}:\n{text_layout.format_result(status.result, width=width)}"
    if status.knowledge:
        yield f"\nKnowledge: {_knowledge(status.knowledge, mission.metadata)}\n"
    if status.turns is not None:
        yield f"\nAgent: {agent_usage.format_usage(status)}\n"
    if status.artifacts:
        files = [(file.path, file.size_bytes) for file in status.artifacts]
        yield f"\nFiles:\n{text_layout.indent(table_layout.format_table(('PATH', 'BYTES'), files))}"
    yield f"\nConditions:\n{conditions.format_conditions(mission)}"
