"""One fact for people: what it says, why it is there, what it touched, what was done to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kais_cli import layout, output

if TYPE_CHECKING:
    from knowledge_client.models import (
        Erased,
        Explained,
        Fact,
        History,
        Impact,
        Link,
        ScopeStats,
        Why,
    )


def page(fact: Fact, history: History, links: Sequence[Link], *, width: int | None) -> str:
    """Show a fact with its links and what was done to it, the oldest first."""
    return "".join(_parts(fact, history, links, width))


def why(found: Why, *, width: int | None) -> str:
    """Tell where a fact comes from: who said it, in which run, knowing what, made of what."""
    return "".join(_why(found, width))


def erased(found: Erased) -> str:
    """Tell what is gone, what was made of it and stands, and what backups hold."""
    lines = [f"{found.facts[0]}: erased with {found.links} links and {found.events} log entries"]
    lines += [f"  copy erased  {each}" for each in found.copies]
    lines += [f"  still there  {each}, which was made from it" for each in found.derived]
    return "\n".join([*lines, found.backups, ""])


def impact(found: Impact) -> str:
    """Tell what a fact has touched: who was given it, which runs, what was made of it."""
    rows = [(s.at, s.principal, s.run, s.receipt) for s in found.recalls]
    listed = [(_when(at), who, run, receipt) for at, who, run, receipt in rows]
    table = output.table(("AT", "GIVEN TO", "RUN", "RECEIPT"), listed)
    more = "\nthere are more recalls than these\n" if getattr(found, "truncated", False) else ""
    parts = [f"{found.fact}: given in {len(found.recalls)} recalls, {len(found.runs)} runs\n"]
    parts += ["\n", table, more] if rows else []
    parts += [f"\nderived from it: {', '.join(found.derived)}\n"] if found.derived else []
    parts += [f"\ncopies of it: {', '.join(found.copies)}\n"] if found.copies else []
    if found.usage:
        uses = ", ".join(f"{kind} {use.count}" for kind, use in sorted(found.usage.items()))
        parts.append(f"\nuses: {uses}\n")
    return "".join(parts)


def whereabouts(found: Sequence[Explained]) -> str:
    """Tell what became of the facts that were asked for, a line each."""
    return "".join(f"{one.fact}: {one.stage}: {one.why}\n" for one in found)


def scope(found: ScopeStats, *, path: str) -> str:
    """Tell what a scope holds and how useful it was."""
    useful = output.percent(found.usefulness) or "nothing counted yet"
    wrote = f"{found.last_write_at:%Y-%m-%d %H:%M} UTC" if found.last_write_at else "never"
    return (
        f"{path}: {found.facts} facts, given in {found.recalls} recalls, useful: {useful},"
        f" last written: {wrote}\n"
    )


def _parts(fact: Fact, history: History, links: Sequence[Link], width: int | None) -> Iterator[str]:
    yield f"{fact.id} in {fact.scope}\n"
    yield f"\n{layout.block(fact.content, width=width, indent='  ')}\n"
    rows = [
        ("kind", fact.kind),
        ("confidence", f"{fact.confidence:.2f}"),
        ("lifecycle", fact.lifecycle),
        ("review", fact.review),
        ("source", f"{fact.source.type} by {fact.source.actor or 'unknown'}"),
        ("recorded", _when(fact.recorded_at)),
        ("true from", _when(fact.valid_from)),
        ("true until", _when(fact.valid_until)),
        ("expires", _when(fact.expires_at)),
        ("closed", _closed(fact)),
        ("subject", fact.subject),
        ("predicate", fact.predicate),
        ("tags", ", ".join(fact.tags)),
        ("flags", ", ".join(fact.flags)),
        ("from", ", ".join(f"{ref.type} {ref.id}" for ref in fact.source.refs)),
    ]
    yield "".join(f"  {name:<11} {value}\n" for name, value in rows if value)
    if links:
        yield "\nLinks:\n"
        named = [(link.type, link.from_, link.to, f"{link.weight or ''}") for link in links]
        yield output.indented(output.table(("TYPE", "FROM", "TO", "WEIGHT"), named))
    if history.entries:
        yield "\nHistory:\n"
        done = [(_when(e.at), e.type, e.actor, e.reason) for e in history.entries]
        yield output.indented(output.table(("AT", "WHAT", "BY", "REASON"), done))


def _why(found: Why, width: int | None) -> Iterator[str]:
    fact = found.fact
    yield f"{fact.id} in {fact.scope}\n\n{layout.block(fact.content, width=width, indent='  ')}\n"
    said = f"said by {fact.source.actor or 'unknown'} ({fact.source.type})"
    yield f"{said}, {_when(fact.recorded_at)}\n"
    if found.run is not None:
        ended = found.run.outcome or "not ended"
        yield f"in run {found.run.run_id} ({found.run.namespace}/{found.run.mission}: {ended})\n"
    for receipt in found.receipts:
        given = ", ".join(receipt.facts) or "nothing"
        yield f"before it, recall {receipt.id} had given: {given}\n"
    yield from _made_of(found)
    yield from _done_to(found)


def _made_of(found: Why) -> Iterator[str]:
    for link in found.derivation:
        yield f"{link.from_} {link.type.replace('_', ' ')} {link.to}\n"
    for origin in found.origins:
        yield f"  {origin.id}: {' '.join(origin.content.split())}\n"


def _done_to(found: Why) -> Iterator[str]:
    for copied in found.promotions:
        undone = f", undone {_when(copied.undone_at)}" if copied.undone_at else ""
        yield f"promoted by {copied.rule}, {_when(copied.at)}{undone}: {copied.copy_}\n"
    for corrected in found.corrections:
        yield f"corrected: {corrected.reason}\n"
    for confirmed in found.confirmations:
        yield f"confirmed by {confirmed.actor}, {_when(confirmed.at)}\n"
    for reviewed in found.reviews:
        yield f"{reviewed.decision} by {reviewed.actor}, {_when(reviewed.at)}: {reviewed.reason}\n"


def _when(at: datetime | None) -> str | None:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else None


def _closed(fact: Fact) -> str | None:
    if fact.closed_at is None:
        return None
    return f"{_when(fact.closed_at)}: {fact.closed_reason or 'no reason given'}"
