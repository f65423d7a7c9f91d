"""The stream of changes and the audit: positions sealed, and only what the caller may see."""

from __future__ import annotations

import functools
import secrets
from collections import Counter
from typing import TYPE_CHECKING

from knowledge_client.models import AuditEntry, AuditPage, Event
from knowledge_service.domain.access_control import PLATFORM, Principal, ScopeRange, View, realm_of
from knowledge_service.domain.seals import Seal, Unsealed
from knowledge_service.errors import Compacted, Forbidden, InvalidToken, QuotaExceeded
from knowledge_service.ports import AuditPlace, Change
from knowledge_service.use_cases import authorization

if TYPE_CHECKING:
    from knowledge_service.ports import Store

_FROM_THE_FIRST = "start"
_RECEIPT = 36  # characters of a receipt's id

# Each stream costs a look at the log a few times a second.
_STREAMS = 256
_STREAMS_OF_ONE = 8


class Seat:
    """One listener's seat; `is_over` once another listener has it."""

    def __init__(self, room: dict[Seat, None], principal: Principal) -> None:
        self._room = room
        self.identity = principal.identity
        realm = realm_of(principal.home)
        self.group = self.identity if realm == PLATFORM else realm
        self.is_over = False

    def give_back(self) -> None:
        """Release the seat."""
        self.is_over = True
        self._room.pop(self, None)


class Listeners:
    """Who listens now: bounded, in all and for each caller. Used from one event loop only.

    When all seats are taken a newcomer gets the oldest one of the caller with the most in the realm
    with the most. That stream ends, and its caller may go on from the last event.
    """

    def __init__(self) -> None:
        self._room: dict[Seat, None] = {}
        self.is_closing = False

    def take(self, principal: Principal) -> Seat:
        """Take a seat.

        Raises:
            QuotaExceeded: the caller has its maximum of streams, or all seats are taken and no
                caller has more than it.
        """
        seat = Seat(self._room, principal)
        if sum(each.identity == seat.identity for each in self._room) >= _STREAMS_OF_ONE:
            raise QuotaExceeded(
                f"{principal.name} listens {_STREAMS_OF_ONE} times already; end one stream first", 5
            )
        if len(self._room) >= _STREAMS:
            self._make_room(seat, principal)
        self._room[seat] = None
        return seat

    def _make_room(self, newcomer: Seat, principal: Principal) -> None:
        groups = Counter(each.group for each in self._room)
        largest, count = groups.most_common(1)[0]
        callers = Counter(each.identity for each in self._room if each.group == largest)
        identity, most = callers.most_common(1)[0]
        own_group, own = groups[newcomer.group], callers[newcomer.identity]
        is_fairer = count > own_group + 1 or (newcomer.group == largest and most > own + 1)
        if not is_fairer:
            raise QuotaExceeded(
                f"{_STREAMS} streams are open, and no caller has more than {principal.name};"
                " try again",
                5,
            )
        next(each for each in self._room if each.identity == identity).give_back()


class Listener:
    """One caller's place in the log."""

    def __init__(self, store: Store, principal: Principal, after: str | None) -> None:
        """Begin now, after a token, or at the first event that is kept.

        Raises:
            InvalidToken: the token was made up, or is another's.
            Compacted: what followed it is not kept any more.
        """
        self._store = store
        self._principal = principal
        self._seal = Seal(store.seal_key(), f"events/{principal.name}")
        first, last = store.bounds()
        if after is None:
            self._position = last
        elif after == _FROM_THE_FIRST:
            self._position = first
        else:
            self._position = self._opened(after, first, last)

    def next(self, limit: int = 200) -> tuple[Event, ...]:
        """Return what happened since the last call, as far as the caller may see; moves on."""
        position = self._position
        found = self._store.changes(position, self._principal.view, limit=limit)
        self._position = found.position
        return tuple(self._event(change) for change in found.found)

    @property
    def is_behind(self) -> bool:
        """Whether there may be more to read at once."""
        return self._position < self._store.bounds()[1]

    def _opened(self, token: str, first: int, last: int) -> int:
        try:
            position = int(self._seal.open(token))
        except Unsealed as exc:
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

    def _event(self, change: Change) -> Event:
        return Event(
            id=self._seal.close(_place_of(change.position), secrets.token_bytes(12)),
            type=change.type,
            scope=change.scope,
            actor=change.actor,
            at=change.at,
            facts=change.facts,
            links=change.links,
            run=change.run,
        )


def audit(
    store: Store, principal: Principal, *, scope: str | None, cursor: str | None, limit: int
) -> AuditPage:
    """Return acts in the scopes that the caller administers, or in one of them.

    Raises:
        Forbidden: it administers none.
        ScopeForbidden: the named scope is out of reach.
        InvalidToken: the cursor was made up, or is another's.
    """
    reaches = tuple(
        ScopeRange(grant.scope, grant.subtree)
        for grant in principal.grants
        if "admin" in grant.verbs
    )
    if scope is not None:
        path = authorization.path_of(scope, principal)
        authorization.require(principal, "admin", path)
        reaches = (ScopeRange(path, subtree=False),)
    if not reaches:
        raise Forbidden(f"{principal.name} administers no scope; the audit is for who does")
    seal = Seal(store.seal_key(), f"audit/{principal.name}/{scope or ''}")
    place = _place(seal, cursor) if cursor else None
    acts = store.audit(reaches, place, limit=limit)
    text = _text_of(acts.next) if acts.next else None
    return AuditPage(
        entries=_as_seen(store, principal.view, acts.entries),
        cursor=seal.close(text, secrets.token_bytes(12)) if text else None,
    )


def _as_seen(store: Store, view: View, entries: tuple[AuditEntry, ...]) -> tuple[AuditEntry, ...]:
    """Leave out, uncounted, what recalls gave of scopes that the caller does not see."""
    if view.can_read_subtree(PLATFORM):
        return entries

    @functools.cache
    def is_seen(fact_id: str) -> bool:
        return store.fact(fact_id, view) is not None

    return tuple(
        each.model_copy(update={"facts": tuple(filter(is_seen, each.facts))})
        if each.receipt
        else each
        for each in entries
    )


def _place_of(position: int) -> str:
    """Write a position so that its length does not tell how many events others made."""
    return f"{position:020d}"


def _text_of(place: AuditPlace) -> str:
    """Write a place as long with a receipt, which may be of others, as without one."""
    receipt = place.receipt.ljust(_RECEIPT)
    return f"{_place_of(place.event)}:{_place_of(place.at_us)}:{receipt}"


def _place(seal: Seal, cursor: str) -> AuditPlace:
    try:
        event, at_us, receipt = seal.open(cursor).split(":", 2)
    except Unsealed as exc:
        raise InvalidToken(
            "invalid cursor, or one of an older version; omit it to start from the first page"
        ) from exc
    return AuditPlace(int(event), int(at_us), receipt.rstrip())
