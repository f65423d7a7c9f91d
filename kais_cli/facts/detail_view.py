"""Formats one fact for people: its content, provenance, impact and history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kais_cli.facts import tables
from kais_cli.views import output, text_layout

if TYPE_CHECKING:
    from knowledge_client.models import (
        Approved,
        Corrected,
        Erased,
        Explained,
        Fact,
        History,
        Impact,
        Link,
        RecallIn,
        Undone,
        Why,
    )


def page(fact: Fact, history: History, links: Sequence[Link], *, width: int | None) -> str:
    """Format a fact with its links and its history, oldest first."""
    return "".join(_parts(fact, history, links, width))


def why(found: Why, *, width: int | None) -> str:
    """Format the provenance of a fact: author, run, recalled facts and sources."""
    return "".join(_why(found, width))


def erased(found: Erased) -> str:
    """Format an erasure: what was erased, what remains, and what backups contain."""
    lines = [f"{found.facts[0]}: erased"]
    if found.links is not None and found.events is not None:
        events = counted(found.events, "log entry", "log entries")
        lines = [f"{lines[0]} with {counted(found.links, 'link')} and {events}"]
    lines += [f"  copy erased  {each}" for each in found.copies]
    lines += [f"  still there  {each}, which was made from it" for each in found.derived]
    return "\n".join([*lines, found.backups, ""])


def copies(done: Approved | Corrected) -> str:
    """List the promoted copies of a corrected fact, one per line."""
    lines = [f"  copy closed  {each}\n" for each in done.copies_retracted]
    lines += [
        f"  copy {each} was confirmed by others and waits for a review\n"
        for each in done.copies_flagged
    ]
    return "".join(lines)


def impact(found: Impact) -> str:
    """Format the impact of a fact: recalls, runs, copies and derived facts."""
    return "".join(_impact(found))


def counted(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun: `1 fact`, `2 facts`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _impact(found: Impact) -> Iterator[str]:
    rows = [(_when(s.at), s.principal, s.run, s.receipt) for s in found.recalls]
    table = output.table(("AT (UTC)", "GIVEN TO", "RUN", "RECEIPT"), rows)
    more = "there are more recalls than these: --limit\n" if found.truncated else ""
    recalls, runs = counted(len(found.recalls), "recall"), counted(len(found.runs), "run")
    yield f"{found.fact}: given in {'at least ' * found.truncated}{recalls}, to {runs}\n"
    yield f"\n{table}{more}" if rows else ""
    copies = set(found.copies)
    yield _listed("copies of it", found.copies)
    yield _listed("made from it", [each for each in found.derived if each not in copies])
    if found.usage:
        uses = ", ".join(f"{kind} {use.count}" for kind, use in sorted(found.usage.items()))
        yield f"\nuses: {uses}\n"


def _listed(title: str, facts: Sequence[str]) -> str:
    return f"\n{title}:\n{output.indented(chr(10).join(facts))}" if facts else ""


def whereabouts(found: Sequence[Explained]) -> str:
    """Explain why facts were not returned, one per line."""
    return "".join(f"{one.fact}: {one.why} ({one.stage})\n" for one in found)


def _parts(fact: Fact, history: History, links: Sequence[Link], width: int | None) -> Iterator[str]:
    yield f"{fact.id} in {fact.scope}\n"
    yield f"\n{text_layout.block(fact.content, width=width, indent='  ')}\n"
    rows = [
        ("kind", fact.kind),
        ("confidence", f"{fact.confidence:.2f}"),
        ("lifecycle", fact.lifecycle),
        ("review", fact.review),
        ("source", f"{fact.source.type} by {fact.source.actor or 'unknown'}"),
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
    yield "".join(f"  {name:<11} {output.cell(value)}\n" for name, value in rows if value)
    if links:
        yield "\nLinks:\n"
        named = [(link.type, link.from_, link.to, f"{link.weight or ''}") for link in links]
        yield output.indented(output.table(("TYPE", "FROM", "TO", "WEIGHT"), named))
    if history.entries:
        yield "\nHistory:\n"
        done = [(_when(e.at), event(e.type), e.actor, e.reason) for e in history.entries]
        yield output.indented(output.table(("AT (UTC)", "WHAT", "BY", "REASON"), done))


def _why(found: Why, width: int | None) -> Iterator[str]:
    fact = found.fact
    yield (
        f"{fact.id} in {fact.scope}\n\n"
        f"{text_layout.block(fact.content, width=width, indent='  ')}\n"
    )
    said = f"said by {fact.source.actor or 'unknown'} ({fact.source.type})"
    yield f"{said}, {_utc(fact.recorded_at)}\n"
    if found.run is not None:
        ended = found.run.outcome or "not ended"
        yield f"in run {found.run.run_id} ({found.run.namespace}/{found.run.mission}: {ended})\n"
    for receipt in found.receipts:
        given = ", ".join(receipt.facts) or "nothing"
        yield f"before it, the recall {receipt.id} had given: {given}\n"
    yield from _made_of(found)
    yield from _done_to(found)


def _made_of(found: Why) -> Iterator[str]:
    for link in found.derivation:
        yield f"{link.from_} {link.type.replace('_', ' ')} {link.to}\n"
    for origin in found.origins:
        yield f"  {origin.id}: {' '.join(origin.content.split())}\n"


def _done_to(found: Why) -> Iterator[str]:
    """Yield the changes of a fact, oldest first."""
    done: list[tuple[datetime, str]] = []
    for copied in found.promotions:
        undone = f" (undone {_utc(copied.undone_at)})" if copied.undone_at else ""
        done.append((copied.at, f"promoted, rule {copied.rule}, to {copied.copy_}{undone}"))
    for closed in found.corrections:
        reason = f": {closed.reason}" if closed.reason else ""
        by = f" by {closed.actor}" if closed.actor else ""
        others = [each for each in closed.replaced_by if each not in (closed.reason or "")]
        instead = f"; {', '.join(others)} instead" if others else ""
        undone = " (undone since)" if found.fact.lifecycle == "live" else ""
        done.append((closed.at, f"{closed.lifecycle}{by}{reason}{instead}{undone}"))
    done += [(each.at, f"confirmed by {each.actor}") for each in found.confirmations]
    for each in found.reviews:
        reason = f": {each.reason}" if each.reason else ""
        done.append((each.at, f"{each.decision} by {each.actor}{reason}"))
    for at, words in sorted(done, key=lambda one: one[0]):
        yield f"{_utc(at)}: {words}\n"


def nothing(question: RecallIn) -> str:
    """Format the message for an empty recall, with its times if it had any."""
    when = f" at {_when(question.known_at)} UTC" if question.known_at else ""
    if question.valid_at is None:
        return f"nothing {'was' if when else 'is'} known about this{when}"
    true = f"true at {_when(question.valid_at)} UTC"
    return f"nothing that {'was' if when else 'is'} known about this{when} was {true}"


def altered(kept: Fact, told: str) -> Iterator[str]:
    """Yield a note for each change that the service made to a new fact."""
    if _MASK in kept.content and _MASK not in told:
        yield f"what looks like a secret was masked: {kept.content}"
    if kept.flags:
        yield (
            f"it reads like orders to an agent (flag {', '.join(kept.flags)}), so no cell is given"
            f" it until `kais knowledge confirm {kept.id}`"
        )


def taken_back(done: Undone) -> str:
    """Format the result of an `undo`, with the other facts that it changed."""
    others = [each for each in done.changed if each != done.fact_id]
    more = f"; changed with it: {', '.join(others)}" if others else ""
    return f"{done.fact_id}: taken back: {event(done.undone)}{more}\n"


def event(type_: str) -> str:
    """Return a short label for a type of event."""
    return _EVENTS.get(type_, type_)


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
    "link.closed": "link taken back",
    "link.restored": "link restored",
    "promotion.made": "promoted",
    "promotion.undone": "promotion taken back",
    "promotion.redone": "promotion restored",
}


def _when(at: datetime | None) -> str | None:
    return tables.moment(at)


def _utc(at: datetime | None) -> str | None:
    return f"{_when(at)} UTC" if at else None


def _closed(fact: Fact) -> str | None:
    if fact.closed_at is None:
        return None
    return f"{_utc(fact.closed_at)}: {fact.closed_reason or 'no reason given'}"
