"""The event stream and the audit log: encrypted positions, and only what the caller may see."""

from __future__ import annotations

import functools
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge_client.models import AuditEntry, AuditPage, Event
from knowledge_service.domain import topics as event_topics
from knowledge_service.domain.access_control import PLATFORM, ScopeRange, View, realm_of
from knowledge_service.domain.cursor_encryption import CursorCipher, InvalidCursor
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import Compacted, Forbidden, InvalidToken, QuotaExceeded
from knowledge_service.ports import AuditCursor, ChangeRecord
from knowledge_service.use_cases import authorization

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_FROM_START = "start"
_RECEIPT_ID_LENGTH = 36  # characters

# Each stream polls the log a few times a second.
_MAX_STREAMS = 256
_MAX_STREAMS_PER_PRINCIPAL = 8


class Subscription:
    """One open stream; `is_over` once another one replaced it."""

    def __init__(self, subscriptions: dict[Subscription, None], principal: Principal) -> None:
        self._subscriptions = subscriptions
        self.identity = principal.identity
        realm = realm_of(principal.home)
        self.group = self.identity if realm == PLATFORM else realm
        self.is_over = False

    def release(self) -> None:
        """End the subscription."""
        self.is_over = True
        self._subscriptions.pop(self, None)


class SubscriptionLimiter:
    """Limits open streams, in total and for each caller. Use it from one event loop only.

    At the total limit, a new stream replaces the oldest one of the caller with the most streams in
    the realm with the most. The client of that stream can resume from its last event.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[Subscription, None] = {}
        self.is_closing = False

    def subscribe(self, principal: Principal) -> Subscription:
        """Open a subscription.

        Raises:
            QuotaExceeded: the caller has its maximum of streams, or the total limit is reached and
                no other caller has more streams.
        """
        subscription = Subscription(self._subscriptions, principal)
        if (
            sum(
                subscription_.identity == subscription.identity
                for subscription_ in self._subscriptions
            )
            >= _MAX_STREAMS_PER_PRINCIPAL
        ):
            raise QuotaExceeded(
                f"{principal.name} already has {_MAX_STREAMS_PER_PRINCIPAL} open streams;"
                " close one first",
                5,
            )
        if len(self._subscriptions) >= _MAX_STREAMS:
            self._evict_one(subscription, principal)
        self._subscriptions[subscription] = None
        return subscription

    def _evict_one(self, subscription: Subscription, principal: Principal) -> None:
        groups = Counter(candidate.group for candidate in self._subscriptions)
        largest, largest_count = groups.most_common(1)[0]
        callers = Counter(
            candidate.identity for candidate in self._subscriptions if candidate.group == largest
        )
        identity, held = callers.most_common(1)[0]
        newcomer_group_count, newcomer_held = (
            groups[subscription.group],
            callers[subscription.identity],
        )
        is_fairer = largest_count > newcomer_group_count + 1 or (
            subscription.group == largest and held > newcomer_held + 1
        )
        if not is_fairer:
            raise QuotaExceeded(
                f"{_MAX_STREAMS} streams are open, and no caller has more than {principal.name};"
                " try again",
                5,
            )
        next(
            candidate for candidate in self._subscriptions if candidate.identity == identity
        ).release()


class EventReader:
    """Reads the log for one caller, from a position on."""

    def __init__(
        self, store: Store, principal: Principal, token: str | None, topics: Sequence[str] = ()
    ) -> None:
        """Start now, after the event of a token, or at the first stored event.

        With `topics`, only events with one of these topics, or with one below them, are read.

        Raises:
            InvalidToken: the token was not issued to this caller.
            Compacted: the events after the token are no longer stored.
        """
        self._store = store
        self._principal = principal
        self._topics = tuple(topics)
        self._cipher = CursorCipher(store.encryption_key(), f"events/{principal.name}")
        first, last = store.bounds()
        if token is None:
            self._position = last
        elif token == _FROM_START:
            self._position = first
        else:
            self._position = self._position_of(token, first, last)

    def read(self, limit: int = 200) -> tuple[Event, ...]:
        """Return the visible events since the last call."""
        position = self._position
        changes = self._store.changes(position, self._principal.view, limit=limit)
        self._position = changes.position
        events = map(self._to_event, changes.changes)
        return tuple(
            event for event in events if event_topics.is_followed(event.topics, self._topics)
        )

    @property
    def is_behind(self) -> bool:
        """Whether the log has events to read."""
        return self._position < self._store.bounds()[1]

    def _position_of(self, token: str, first: int, last: int) -> int:
        try:
            position = int(self._cipher.decrypt(token))
        except InvalidCursor as exc:
            raise InvalidToken(
                "Last-Event-ID was not issued to you by this service, or by an older version of it;"
                " omit it to start now, or send start for the first stored event"
            ) from exc
        if not first <= position <= last:
            raise Compacted(
                "the events after that one are no longer stored; read the current state, "
                "then listen without Last-Event-ID"
            )
        return position

    def _to_event(self, change: ChangeRecord) -> Event:
        return Event(
            id=self._cipher.encrypt(_format_position(change.position), secrets.token_bytes(12)),
            type=change.type,
            scope=change.scope,
            actor=change.actor,
            at=change.at,
            facts=change.facts,
            links=change.links,
            run=change.run,
            session=change.session,
            kinds=change.kinds,
            schemas=change.schemas,
            topics=event_topics.topics_of(change.type, change.kinds, change.schemas),
        )


def list_audit_entries(
    store: Store, principal: Principal, *, scope: str | None, cursor: str | None, limit: int
) -> AuditPage:
    """Return operations in the scopes that the caller administers, or in one of them.

    Raises:
        Forbidden: the caller administers no scope.
        ScopeForbidden: the named scope is out of reach.
        InvalidToken: the cursor was not issued to this caller.
    """
    reaches = tuple(
        ScopeRange(grant.scope, grant.subtree)
        for grant in principal.grants
        if "admin" in grant.verbs
    )
    if scope is not None:
        path = authorization.canonical_path(scope, principal)
        authorization.require_verb(principal, "admin", path)
        reaches = (ScopeRange(path, subtree=False),)
    if not reaches:
        raise Forbidden(f"{principal.name} administers no scope, which the audit requires")
    cipher = CursorCipher(store.encryption_key(), f"audit/{principal.name}/{scope or ''}")
    position = _audit_cursor_of(cipher, cursor) if cursor else None
    records = store.audit(reaches, position, limit=limit)
    text = _format_audit_cursor(records.next) if records.next else None
    return AuditPage(
        entries=_hide_invisible_facts(store, principal.view, records.entries),
        cursor=cipher.encrypt(text, secrets.token_bytes(12)) if text else None,
    )


def _hide_invisible_facts(
    store: Store, view: View, entries: tuple[AuditEntry, ...]
) -> tuple[AuditEntry, ...]:
    """Remove the facts of invisible scopes from the entries of recalls."""
    if view.can_read_subtree(PLATFORM):
        return entries

    @functools.cache
    def is_visible(fact_id: str) -> bool:
        return store.fact(fact_id, view) is not None

    return tuple(
        entry.model_copy(update={"facts": tuple(filter(is_visible, entry.facts))})
        if entry.receipt
        else entry
        for entry in entries
    )


def _format_position(position: int) -> str:
    """Format a position at a fixed length, which reveals nothing of the number of events."""
    return f"{position:020d}"


def _format_audit_cursor(position: AuditCursor) -> str:
    """Format a position at a fixed length, with a receipt or without."""
    receipt = position.receipt.ljust(_RECEIPT_ID_LENGTH)
    return f"{_format_position(position.event)}:{_format_position(position.at_us)}:{receipt}"


def _audit_cursor_of(cipher: CursorCipher, cursor: str) -> AuditCursor:
    try:
        event, at_us, receipt = cipher.decrypt(cursor).split(":", 2)
    except InvalidCursor as exc:
        raise InvalidToken(
            "invalid cursor, or one of an older version; omit it to start from the first page"
        ) from exc
    return AuditCursor(int(event), int(at_us), receipt.rstrip())
