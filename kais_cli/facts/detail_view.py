"""Formats one fact for people: its content, provenance, impact and history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kais_cli.facts import tables
from kais_cli.views import table_layout, text_layout, text_width

if TYPE_CHECKING:
    from knowledge_client.models import (
        ApprovalResult,
        CorrectionResult,
        ErasureResult,
        Fact,
        FactExplanation,
        FactProvenance,
        History,
        Impact,
        Link,
        RecallIn,
        Revised,
        UndoResult,
    )


def format_fact(fact: Fact, history: History, links: Sequence[Link], *, width: int | None) -> str:
    """Format a fact with its links and its history, oldest first."""
    return "".join(_fact_sections(fact, history, links, width))


def format_provenance(provenance: FactProvenance, *, width: int | None) -> str:
    """Format the provenance of a fact: author, run, recalled facts and sources."""
    return "".join(_provenance_lines(provenance, width))


def format_erasure(erasure: ErasureResult) -> str:
    """Format an erasure: what was erased, what remains, and what backups contain."""
    lines = [f"{erasure.facts[0]}: erased"]
    if erasure.links is not None and erasure.events is not None:
        events = pluralise(erasure.events, "log entry", "log entries")
        lines = [f"{lines[0]} with {pluralise(erasure.links, 'link')} and {events}"]
    lines += [f"  copy erased  {fact_id}" for fact_id in erasure.copies]
    lines += [f"  still there  {fact_id}, which was made from it" for fact_id in erasure.derived]
    return "\n".join([*lines, erasure.backups, ""])


def format_copies(outcome: ApprovalResult | CorrectionResult | Revised) -> str:
    """List the promoted copies of a corrected or revised fact, one per line."""
    lines = [f"  copy closed  {copy_id}\n" for copy_id in outcome.copies_retracted]
    lines += [
        f"  copy {copy_id} was confirmed by others and waits for a review\n"
        for copy_id in outcome.copies_flagged
    ]
    return "".join(lines)


def format_impact(report: Impact) -> str:
    """Format the impact of a fact: recalls, runs, copies and derived facts."""
    return "".join(_impact_sections(report))


def pluralise(count: int, singular: str, plural: str | None = None) -> str:
    """Format a count with its noun: `1 fact`, `2 facts`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def _impact_sections(report: Impact) -> Iterator[str]:
    rows = [(_timestamp(s.at), s.principal, s.run, s.receipt) for s in report.recalls]
    table = table_layout.format_table(("AT (UTC)", "RETURNED TO", "RUN", "RECEIPT"), rows)
    truncation_note = "there are more recalls than these: --limit\n" if report.truncated else ""
    recalls, runs = pluralise(len(report.recalls), "recall"), pluralise(len(report.runs), "run")
    yield f"{report.fact}: returned by {'at least ' * report.truncated}{recalls}, for {runs}\n"
    yield f"\n{table}{truncation_note}" if rows else ""
    copies = set(report.copies)
    yield _fact_list("copies of it", report.copies)
    yield _fact_list(
        "made from it", [fact_id for fact_id in report.derived if fact_id not in copies]
    )
    if report.usage:
        uses = ", ".join(f"{kind} {use.count}" for kind, use in sorted(report.usage.items()))
        yield f"\nuses: {uses}\n"


def _fact_list(title: str, facts: Sequence[str]) -> str:
    return f"\n{title}:\n{text_layout.indent(chr(10).join(facts))}" if facts else ""


def explain_missing_facts(explanations: Sequence[FactExplanation]) -> str:
    """Explain why facts were not returned, one per line."""
    return "".join(
        f"{explanation.fact}: {explanation.why} ({explanation.stage})\n"
        for explanation in explanations
    )


def _fact_sections(
    fact: Fact, history: History, links: Sequence[Link], width: int | None
) -> Iterator[str]:
    yield f"{fact.id} in {fact.scope}\n"
    yield f"\n{text_layout.wrap_text(fact.content, width=width, indent='  ')}\n"
    rows = [
        ("kind", fact.kind),
        ("confidence", f"{fact.confidence:.2f}"),
        ("lifecycle", fact.lifecycle),
        ("review", fact.review),
        ("source", f"{fact.source.type} by {fact.source.actor or 'unknown'}"),
        ("author", fact.source.author),
        ("recorded", _utc(fact.recorded_at)),
        ("true from", _utc(fact.valid_from)),
        ("true until", _utc(fact.valid_until)),
        ("expires", _utc(fact.expires_at)),
        ("closed", _closed(fact)),
        ("subject", fact.subject),
        ("predicate", fact.predicate),
        ("tags", ", ".join(fact.tags)),
        ("flags", ", ".join(fact.flags)),
        ("from", ", ".join(f"{ref.type} {ref.id}" for ref in fact.source.refs)),
    ]
    yield "".join(
        f"  {name:<11} {table_layout.format_cell(value)}\n" for name, value in rows if value
    )
    live_links = [link for link in links if link.closed_at is None]
    if live_links:
        yield "\nLinks:\n"
        link_rows = [
            (link.type, link.from_, link.to, f"{link.weight or ''}") for link in live_links
        ]
        yield text_layout.indent(
            table_layout.format_table(("TYPE", "FROM", "TO", "WEIGHT"), link_rows)
        )
    if history.entries:
        yield "\nHistory:\n"
        history_rows = [
            (_timestamp(e.at), event_label(e.type), e.actor, e.reason) for e in history.entries
        ]
        yield text_layout.indent(
            table_layout.format_table(("AT (UTC)", "WHAT", "BY", "REASON"), history_rows)
        )


def _provenance_lines(provenance: FactProvenance, width: int | None) -> Iterator[str]:
    fact = provenance.fact
    yield (
        f"{fact.id} in {fact.scope}\n\n"
        f"{text_layout.wrap_text(fact.content, width=width, indent='  ')}\n"
    )
    speaker = f"said by {fact.source.actor or 'unknown'} ({fact.source.type})"
    yield f"{speaker}, {_utc(fact.recorded_at)}\n"
    if provenance.run is not None:
        ended = provenance.run.outcome or "not ended"
        yield (
            f"in run {provenance.run.run_id}"
            f" ({provenance.run.namespace}/{provenance.run.mission}: {ended})\n"
        )
    for receipt in provenance.receipts:
        recalled = ", ".join(receipt.facts) or "nothing"
        yield f"before it, the recall {receipt.id} had given: {recalled}\n"
    yield from _derivation_lines(provenance)
    yield from _change_lines(provenance)


def _derivation_lines(provenance: FactProvenance) -> Iterator[str]:
    for link in provenance.derivation:
        if link.closed_at is not None:
            continue
        yield f"{link.from_} {link.type.replace('_', ' ')} {link.to}\n"
    for origin in provenance.origins:
        yield f"  {origin.id}: {' '.join(origin.content.split())}\n"


def _change_lines(provenance: FactProvenance) -> Iterator[str]:
    """Yield the changes of a fact, oldest first."""
    changes: list[tuple[datetime, str]] = []
    for promotion in provenance.promotions:
        undone = f" (undone {_utc(promotion.undone_at)})" if promotion.undone_at else ""
        changes.append(
            (promotion.at, f"promoted, rule {promotion.rule}, to {promotion.copy_}{undone}")
        )
    for correction in provenance.corrections:
        reason = f": {correction.reason}" if correction.reason else ""
        actor = f" by {correction.actor}" if correction.actor else ""
        replacements = [
            entry for entry in correction.replaced_by if entry not in (correction.reason or "")
        ]
        replacement_note = f"; {', '.join(replacements)} instead" if replacements else ""
        undone = " (undone since)" if provenance.fact.lifecycle == "live" else ""
        changes.append(
            (correction.at, f"{correction.lifecycle}{actor}{reason}{replacement_note}{undone}")
        )
    changes += [(entry.at, f"confirmed by {entry.actor}") for entry in provenance.confirmations]
    for entry in provenance.reviews:
        reason = f": {entry.reason}" if entry.reason else ""
        changes.append((entry.at, f"{entry.decision} by {entry.actor}{reason}"))
    for at, description in sorted(changes, key=lambda change: change[0]):
        yield f"{_utc(at)}: {description}\n"


def no_results_message(question: RecallIn) -> str:
    """Format the message for an empty recall, with its times if it had any."""
    time_note = f" at {_timestamp(question.known_at)} UTC" if question.known_at else ""
    if question.valid_at is None:
        return f"nothing {'was' if time_note else 'is'} known about this{time_note}"
    true = f"true at {_timestamp(question.valid_at)} UTC"
    return f"nothing that {'was' if time_note else 'is'} known about this{time_note} was {true}"


def store_changes(stored: Fact, content: str) -> Iterator[str]:
    """Yield a note for each change that the service made to a new fact."""
    if _MASK in stored.content and _MASK not in content:
        yield f"what looks like a secret was masked: {stored.content}"
    if stored.flags:
        yield (
            f"it reads like orders to an agent (flag {', '.join(stored.flags)}), so no cell is"
            f" given it until `kais knowledge confirm {stored.id}`"
        )


def undo_summary(undone: UndoResult, facts: Mapping[str, Fact | None]) -> str:
    """Format the result of an `undo`; `facts` are those that it changed, as they are now.

    The undone operation may have closed another fact and recorded this one.
    """
    description = _UNDONE.get(undone.undone, "undone")
    fact = facts.get(undone.fact_id)
    if fact is not None and fact.lifecycle == "retracted" and undone.undone == "fact.closed":
        description = _UNDONE["fact.recorded"]
    lines = [f"{undone.fact_id}: {description}\n"]
    for fact_id, fact in facts.items():
        if fact_id == undone.fact_id:
            continue
        note = f"; now {fact.lifecycle}: {_excerpt(fact.content)}" if fact is not None else ""
        lines.append(f"{fact_id}: changed with it{note}\n")
    return "".join(lines)


def _excerpt(content: str) -> str:
    return text_width.truncate(" ".join(content.split()), _EXCERPT_WIDTH)


def event_label(type_: str) -> str:
    """Return a short label for a type of event."""
    return _EVENTS.get(type_, type_)


_EXCERPT_WIDTH = 60  # columns
_UNDONE = {
    "fact.recorded": "no longer stored: it is retracted",
    "fact.confirmed": "the last confirmation is removed",
    "fact.closed": "live again: it is no longer closed",
    "fact.restored": "closed again: the restoration is undone",
    "fact.reviewed": "the review is undone",
    "fact.restated": "the review is undone",
    "fact.flagged": "the flag is removed",
    "fact.archived": "live again: it is no longer archived",
    "fact.bounded": "the end of its validity is removed",
    "link.made": "the link is removed",
    "link.closed": "the link is there again",
    "promotion.made": "the promotion is undone",
    "promotion.undone": "the promotion is in effect again",
}
"""The effect of an undo, by the first event of the undone operation."""
_MASK = "[masked]"
"""The replacement of a masked secret."""
_EVENTS = {
    "fact.recorded": "recorded",
    "fact.confirmed": "confirmed",
    "fact.closed": "closed",
    "fact.restored": "restored",
    "fact.reviewed": "reviewed",
    "fact.flagged": "flagged",
    "fact.archived": "archived",
    "fact.bounded": "end of validity set",
    "fact.undone": "undone",
    "link.made": "linked",
    "link.closed": "link removed",
    "link.restored": "link restored",
    "promotion.made": "promoted",
    "promotion.undone": "promotion undone",
    "promotion.redone": "promotion restored",
}


def _timestamp(at: datetime | None) -> str | None:
    return tables.format_timestamp(at)


def _utc(at: datetime | None) -> str | None:
    return f"{_timestamp(at)} UTC" if at else None


def _closed(fact: Fact) -> str | None:
    if fact.closed_at is None:
        return None
    return f"{_utc(fact.closed_at)}: {fact.closed_reason or 'no reason given'}"
