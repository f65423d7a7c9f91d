"""Concurrency limits: how many calls a principal may have in flight, and which runs next.

A call counts from the moment its caller is authenticated; beyond the limit, the caller gets 429.
Calls that need a thread or a read connection then wait for a slot of their kind. A free slot goes
to the group (a realm) and the principal that were served least recently, so no caller waits behind
the queue of another. Use it from one event loop only.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Literal

from knowledge_service.domain.access_control import PLATFORM, realm_of
from knowledge_service.domain.principals import Principal
from knowledge_service.errors import QuotaExceeded, StoreUnavailable

SlotKind = Literal["lists", "lookups", "recalls", "writes"]
# Slots of each kind, each with a thread. "lists" has as many as there are connections for lists.
# "recalls" also validates facts; more would compete for the interpreter.
SLOTS: Mapping[SlotKind, int] = {"lists": 3, "lookups": 8, "recalls": 4, "writes": 16}
# A client gives up after 10 s.
_SLOT_TIMEOUT_S = 8.0
# The number of principals and groups whose last turn is remembered; arbitrary.
_MAX_REMEMBERED_TURNS = 10_000


@dataclass(frozen=True)
class Limits:
    """Limits of one principal: calls and bytes in flight, and slots of each kind."""

    in_flight: int
    bytes_in_flight: int
    running: Mapping[SlotKind, int]


# One list and two recalls leave slots to other agents, also of the same realm.
AGENTS = Limits(64, 16 << 20, {"lists": 1, "lookups": 2, "recalls": 2, "writes": 4})
PEOPLE = Limits(256, 32 << 20, {"lists": 1, "lookups": 4, "recalls": 4, "writes": 8})
# The operator acts for all teams.
SYSTEM = Limits(512, 64 << 20, {"lists": 2, "lookups": 8, "recalls": 4, "writes": 16})
_LIMITS = {"agent": AGENTS, "human": PEOPLE, "system": SYSTEM}

# The total size of request bodies in memory; parsed, they are several times larger. One realm may
# use half of it.
_MAX_BYTES_IN_FLIGHT = 128 << 20

_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Reads of few rows; every other read may scan many.
_LOOKUPS = re.compile(
    r"/v1/(?:whoami|events|(?:facts|runs|receipts|extractions|principals)/[^/:]+)", re.DOTALL
)
_TICKET_PATHS = frozenset({"/v1/peers:ticket", "/v1/peers:verify"})
_RECALLS = re.compile(r"/recall|/v1/recall|/v1/receipts/.*:(?:replay|diff|explain)", re.DOTALL)


def slot_kind_of(method: str, path: str) -> SlotKind:
    """Return the kind of slot that a request needs."""
    if _RECALLS.fullmatch(path):
        return "recalls"
    if path in _TICKET_PATHS:
        return "lookups"
    if method in _READ_METHODS:
        return "lookups" if _LOOKUPS.fullmatch(path) else "lists"
    return "lists" if path == "/v1/stats:batch" else "writes"


@dataclass(frozen=True)
class Client:
    """The holder of slots: a principal, its group, and how many slots it may hold at once."""

    principal: str
    group: str
    max_slots: int

    @property
    def is_alone(self) -> bool:
        """Return whether the group consists of this principal alone."""
        return self.group.startswith(f"{PLATFORM}\n")


class FairSemaphore:
    """A semaphore that serves the least recently served group first.

    The same holds for the principals of a group. The calls of a principal keep their order. A group
    of several principals leaves one slot to other groups.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._free = slots
        self._held: Counter[str] = Counter()
        self._waiting: dict[Client, deque[asyncio.Future[None]]] = {}
        self._turns = itertools.count(1)
        self._last_turn: dict[str, int] = {}

    def take_free(self, client: Client) -> bool:
        """Take a slot and return True, unless the client has to wait for one."""
        if not self._is_eligible(client) or client in self._waiting:
            return False
        self._take(client)
        return True

    async def wait(self, client: Client, within_s: float) -> None:
        """Wait for a slot and take it.

        Raises:
            TimeoutError: no slot became free in time.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        # A timer for the future alone: `asyncio.timeout` costs several times as much.
        timer = loop.call_later(within_s, self._give_up, client, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(client, turn)
            elif turn.exception() is None:
                self.release(client)
            raise
        finally:
            timer.cancel()

    def _give_up(self, client: Client, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            self._leave(client, turn)
            turn.set_exception(TimeoutError())

    def _leave(self, client: Client, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(client, deque())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[client]

    def _take(self, client: Client) -> None:
        self._free -= 1
        self._held[client.principal] += 1
        self._held[client.group] += 1
        if len(self._last_turn) > _MAX_REMEMBERED_TURNS:
            self._last_turn.clear()
        self._last_turn[client.principal] = self._last_turn[client.group] = next(self._turns)

    def release(self, client: Client) -> None:
        """Give a slot back, and hand it to the next client that waits."""
        self._free += 1
        for key in (client.principal, client.group):
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
        while eligible := [
            waiting_client for waiting_client in self._waiting if self._is_eligible(waiting_client)
        ]:
            chosen = min(eligible, key=self._turn)
            turn = self._waiting[chosen][0]
            self._leave(chosen, turn)
            if not turn.cancelled():
                self._take(chosen)
                turn.set_result(None)

    def _is_eligible(self, client: Client) -> bool:
        if not self._free or self._held[client.principal] >= client.max_slots:
            return False
        return client.is_alone or self._held[client.group] < max(1, self._slots - 1)

    def _turn(self, client: Client) -> tuple[int, int]:
        last = self._last_turn
        return last.get(client.group, 0), last.get(client.principal, 0)


@dataclass(slots=True)
class _Load:
    """The calls and bytes that a principal or a group has in flight."""

    calls: int = 0
    size: int = 0


class _Call:
    """A call in flight, counted for its principal and its group until the block ends."""

    __slots__ = ("_concurrency", "_keys", "_size")

    def __init__(self, concurrency: ConcurrencyLimiter, keys: tuple[str, str], size: int) -> None:
        self._concurrency = concurrency
        self._keys = keys
        self._size = size

    def __enter__(self) -> None:
        """Do nothing: the call is already counted."""

    def __exit__(self, *_: object) -> None:
        self._concurrency.end_call(self._keys, self._size)


class ConcurrencyLimiter:
    """Counts calls in flight by principal, and hands out slots."""

    def __init__(self) -> None:
        self._loads: dict[str, _Load] = {}
        self._size = 0
        self._slots = {kind: FairSemaphore(slots) for kind, slots in SLOTS.items()}

    def count_call(self, principal: Principal, size: int = 0) -> AbstractContextManager[None]:
        """Count a call and the bytes of its body until the block ends.

        Raises:
            QuotaExceeded: the principal reached its limit.
            StoreUnavailable: all callers together, or a realm, reached the limit of bytes.
        """
        identity = principal.identity
        keys = (identity, _group_of(principal, identity))
        principal_load = self._loads.get(identity) or _Load()
        _check_limits(principal, principal_load, size)
        group_load = self._loads.get(keys[1]) or _Load()
        is_limit_exceeded = (
            self._size + size > _MAX_BYTES_IN_FLIGHT
            or group_load.size + size > _MAX_BYTES_IN_FLIGHT // 2
        )
        if size and is_limit_exceeded:
            raise StoreUnavailable("too many large requests are in progress; try again")
        self._size += size
        for key in keys:
            load = self._loads.setdefault(key, _Load())
            load.calls += 1
            load.size += size
        return _Call(self, keys, size)

    def end_call(self, keys: tuple[str, str], size: int) -> None:
        """Stop counting a call."""
        self._size -= size
        for key in keys:
            load = self._loads[key]
            load.calls -= 1
            load.size -= size
            if not load.calls:
                del self._loads[key]

    def hold_slot(self, principal: Principal, kind: SlotKind) -> AbstractAsyncContextManager[None]:
        """Wait for a slot and hold it while the call runs.

        Raises:
            StoreUnavailable: no slot became free in time.
        """
        identity = principal.identity
        max_slots = _LIMITS[principal.type].running[kind]
        return _Slot(self._slots[kind], Client(identity, _group_of(principal, identity), max_slots))


class _Slot(AbstractAsyncContextManager[None]):
    """A slot of a client while the block runs."""

    __slots__ = ("_client", "_semaphore")

    def __init__(self, semaphore: FairSemaphore, client: Client) -> None:
        self._semaphore = semaphore
        self._client = client

    async def __aenter__(self) -> None:
        if self._semaphore.take_free(self._client):
            return
        try:
            await self._semaphore.wait(self._client, _SLOT_TIMEOUT_S)
        except TimeoutError as exc:
            raise StoreUnavailable(
                f"the calls before this one took more than {_SLOT_TIMEOUT_S:g} s;"
                " send fewer at once, or try again"
            ) from exc

    async def __aexit__(self, *_: object) -> None:
        self._semaphore.release(self._client)


def _group_of(principal: Principal, identity: str) -> str:
    """Return the realm of a principal; each principal of the platform is its own group."""
    realm = realm_of(principal.home)
    return f"{PLATFORM}\n{identity}" if realm == PLATFORM else realm


def _check_limits(principal: Principal, load: _Load, size: int) -> None:
    limits = _LIMITS[principal.type]
    if load.calls >= limits.in_flight:
        raise QuotaExceeded(
            f"{principal.name} has {limits.in_flight} concurrent calls, its maximum;"
            " wait for answers before sending more",
            retry_after_s=1,
        )
    if size and load.size + size > limits.bytes_in_flight:
        raise QuotaExceeded(
            f"{principal.name} may send at most {limits.bytes_in_flight} bytes at a time;"
            " wait for answers before sending more",
            retry_after_s=1,
        )
