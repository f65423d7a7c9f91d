"""Facts as most of them are told: words and little else, many at a time.

A fact that says more (a source, a run, a time, a key, data, names) is `knowledge_client.models`'
FactIn, and so is what breaks a bound; these here are what a FactIn would be of the same JSON, read
at a tenth of the cost. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from knowledge_client import wire
from knowledge_client.models import FactIn, FactsIn
from knowledge_service.domain import signs

Tag = Annotated[str, Meta(max_length=64)]


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A fact to remember that says nothing unusual; the bounds are FactIn's."""

    content: Annotated[str, Meta(min_length=1, max_length=8192)]
    scope: str | None = None
    kind: Annotated[str, Meta(min_length=1, max_length=64)] = "fact"
    title: Annotated[str, Meta(max_length=200)] | None = None
    tags: Annotated[tuple[Tag, ...], Meta(max_length=32)] = ()
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    aliases: Annotated[tuple[Any, ...], Meta(max_length=0)] = ()
    review: Literal["none", "draft"] = "none"
    force: bool = False


class ToldTogether(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Such facts, all in one call."""

    facts: Annotated[tuple[Told, ...], Meta(min_length=1, max_length=200)]


_TOGETHER = msgspec.json.Decoder(ToldTogether)
_DEFAULTS = FactIn(content="x").__dict__
_GIVEN = Told.__struct_fields__


def read(body: bytes) -> tuple[Told, ...] | None:
    """Read the body of a batch; None when it is for FactsIn to take or to refuse."""
    try:
        return _TOGETHER.decode(body).facts
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def fact_in(told: Told) -> FactIn:
    """Say it as a FactIn does."""
    return wire.built(FactIn, {**_DEFAULTS, **{name: getattr(told, name) for name in _GIVEN}})


def facts_in(told: tuple[Told, ...]) -> FactsIn:
    """Say all of them as a FactsIn does."""
    return wire.built(FactsIn, {"facts": tuple(map(fact_in, told))})


def looked_at(told: tuple[Told, ...]) -> list[bool]:
    """Tell of each fact whether neither gate has anything to say about its words."""
    return [not sign for sign in signs.of_all(list(map(_words, told)))]


def _words(told: Told) -> str:
    if told.title is None and not told.tags:
        return told.content
    # A line's end is an end of words, for both gates.
    return "\n".join((told.content, told.title or "", *told.tags))
