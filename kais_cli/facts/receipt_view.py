"""Formats receipts of recalls, and how the same recall answers at another time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kais_cli.facts import tables
from kais_cli.views import table_layout, text_layout

if TYPE_CHECKING:
    from knowledge_client.models import Fact, Receipt, ReplayResult

_CONTENT_COLUMNS = 80
_HIDDEN = "(deleted, or not visible to you)"


def format_receipt(receipt: Receipt, facts: Mapping[str, Fact], *, width: int | None) -> str:
    """Format a receipt: who asked what and when, and the facts that the recall returned."""
    return "".join(_sections(receipt, facts, width))


def _sections(receipt: Receipt, facts: Mapping[str, Fact], width: int | None) -> Iterator[str]:
    yield f"receipt {receipt.id}, of {receipt.known_at:%Y-%m-%d %H:%M:%S} UTC\n"
    caller = f", asked by {receipt.acted_by}" if receipt.acted_by else ""
    yield f"  for     {receipt.principal}{caller}\n"
    if receipt.run:
        yield f"  run     {receipt.run}, attempt {receipt.attempt or 1}\n"
    yield f"  scopes  {', '.join(receipt.scopes)}\n"
    if receipt.asked is not None:
        yield "  query\n"
        yield text_layout.wrap_text(receipt.asked.query, width=width, indent="    ")
    if receipt.reasons:
        yield f"  none    {'; '.join(receipt.reasons)}\n"
    if not receipt.facts:
        yield "\nThe recall returned no facts.\n"
        return
    versions: Sequence[int | None] = receipt.versions or [None] * len(receipt.facts)
    rows = [
        (rank, f"{score:.3f}", fact_id, version, _content(facts.get(fact_id)))
        for rank, (fact_id, version, score) in enumerate(
            zip(receipt.facts, versions, receipt.scores, strict=True), start=1
        )
    ]
    yield "\n"
    yield table_layout.format_table(("RANK", "SCORE", "ID", "VERSION", "FACT"), rows)


def format_replay(result: ReplayResult, facts: Mapping[str, Fact], *, is_now: bool) -> str:
    """Format the same recall as of its own time, or as of now, by what has changed."""
    time = "now" if is_now else f"as of {result.known_at:%Y-%m-%d %H:%M:%S} UTC"
    count = f"{len(result.facts)} {'fact' if len(result.facts) == 1 else 'facts'}"
    if result.equal:
        return f"the same recall {time} returns the same {count}, in the same order\n"
    lines = [f"the same recall {time} returns {count}, and not the same:\n"]
    rows = [
        (
            _rank(change.rank_then),
            _rank(change.rank_now),
            change.fact,
            _content(facts.get(change.fact)),
        )
        for change in result.moved
    ]
    if rows:
        lines.append(table_layout.format_table(("RANK THEN", "RANK NOW", "ID", "FACT"), rows))
    lines += [f"because: {reason}\n" for reason in result.reasons]
    return "".join(lines)


def _rank(rank: int | None) -> str:
    return "not returned" if rank is None else str(rank)


def _content(fact: Fact | None) -> str:
    return tables.truncate_content(fact.content, _CONTENT_COLUMNS) if fact else _HIDDEN
