"""The event stream and the audit log."""

from __future__ import annotations

import operator

from pydantic import Field

from knowledge_client.base_model import UtcDatetime, WireModel


class Event(WireModel):
    """One change that the caller may see. `id` is opaque: send it back to resume after it.

    An event contains ids but no texts: read the facts to get them. `kinds` and `schemas` are those
    of the facts in the event. `topics` are what a stream can follow: the type with each kind
    (`fact.recorded.entity`), and the name of each schema with what happened (`block.created`).
    """

    id: str
    type: str
    scope: str
    actor: str
    at: UtcDatetime
    facts: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    run: str | None = None
    session: str | None = None
    kinds: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class AuditEntry(WireModel):
    """One change, or a recall with its receipt; `on_behalf_of` is the impersonated principal.

    Reports of usage have the `run` and the `session` in which the facts were used.
    """

    at: UtcDatetime
    actor: str
    action: str
    scope: str | None = None
    facts: tuple[str, ...] = ()
    run: str | None = None
    session: str | None = Field(default=None, exclude_if=operator.not_)
    receipt: str | None = None
    on_behalf_of: str | None = None


class AuditPage(WireModel):
    """A page of the audit log, newest first. `cursor` is opaque, and absent on the last page.

    A page may be short or empty and still have a cursor, because each call searches only a part of
    the log.
    """

    entries: tuple[AuditEntry, ...] = Field(default=())
    cursor: str | None = None
