"""Worlds of three tenants that share words, ancestors, promotions and usage, and each one alone.

A world is facts, links and uses, and acts upon them (`acts`). `alone` leaves out what one tenant
may not see: the private facts of the others, their links, uses, recalls, runs and verbs. What they
left on shared scopes stays, because it is there for everybody: above all what their cells remember
for a Blueprint. A tenant must not be able to tell the one from the other.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from knowledge_client.models import RecallIn, Source
from knowledge_service.domain.access_control import EVERYTHING, View
from knowledge_service.domain.principals import Principal
from knowledge_service.fact_transactions import close_with_copies
from knowledge_service.fact_transactions.unit_of_work import require_fact
from knowledge_service.ports import (
    ActionContext,
    Actor,
    AuditReader,
    FactUsage,
    Listing,
    NewLink,
    NewReceipt,
)
from knowledge_service.store.sqlite.db.transaction import Transaction
from knowledge_service.store.sqlite.repositories.fact_unit_of_work import SqliteUnitOfWork
from knowledge_service.store.sqlite.store import SqliteStore
from knowledge_service.use_cases import recall
from tests.contract.isolation import operations
from tests.knowledge_builders import new_fact

TENANTS, FACTS, SHARED = 3, 200, 40
_A_TURN = 20
_START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_VOCABULARY = [
    "pod",
    "volume",
    "class",
    "image",
    "registry",
    "pull",
    "backoff",
    "quota",
    "node",
    "drain",
    "evict",
    "probe",
    "ready",
    "restart",
    "crash",
    "memory",
    "limit",
    "cpu",
    "throttle",
    "network",
    "policy",
    "dns",
    "timeout",
    "retry",
    "token",
    "expire",
    "certificate",
    "rotate",
    "deploy",
    "rollout",
    "rollback",
    "build",
    "cache",
    "layer",
    "test",
    "flaky",
    "branch",
    "merge",
    "review",
    "lint",
    "schema",
    "migrate",
    "index",
    "query",
    "lock",
    "deadlock",
    "backup",
    "restore",
    "replica",
    "leader",
    "lease",
    "clock",
    "skew",
    "disk",
    "full",
    "inode",
]
_KINDS = ("fact", "pitfall", "pattern", "tool-quirk")
_USES = ("consulted", "applied", "succeeded", "failed", "prevented")
_LAYOUTS: tuple[Callable[[int], str], ...] = (
    lambda n: f"realm:t{n}/formation:team/cell:lead-0",  # they share the platform
    lambda n: f"realm:shared/formation:f{n}/cell:lead-0",  # and a realm
    lambda n: f"realm:shared/formation:team/cell:lead-{n}",  # and a formation
)


@dataclass(frozen=True)
class Fact:
    """A fact to be told; `owner` is a tenant, or None on a shared scope."""

    key: int
    scope: str
    owner: int | None
    content: str
    kind: str
    tags: tuple[str, ...]
    confidence: float
    subject: str | None
    author: str | None = None


@dataclass(frozen=True)
class Link:
    """A link to be made by a tenant between two facts."""

    by: int
    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Used:
    """A use that a tenant's cell counts."""

    by: int
    fact: int
    kind: str
    count: int


@dataclass(frozen=True)
class World:
    """Everything that three tenants did."""

    homes: tuple[str, ...]
    turns: tuple[tuple[Fact, ...], ...]
    links: tuple[Link, ...]
    uses: tuple[Used, ...]
    acts: tuple[operations.Act, ...] = ()
    origins: dict[int, Fact] = field(default_factory=dict)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return the facts in the order in which they are told."""
        return tuple(itertools.chain.from_iterable(self.turns))

    def alone(self, tenant: int) -> World:
        """Leave out what the tenant may not see."""
        turns = tuple(turn for turn in self.turns if turn[0].owner in (None, tenant))
        keys = {fact.key for turn in turns for fact in turn}
        origins = {fact.key: fact for fact in self.facts}
        return World(
            homes=self.homes,
            turns=turns,
            links=tuple(x for x in self.links if x.start in keys and x.end in keys),
            uses=tuple(u for u in self.uses if u.by == tenant and u.fact in keys),
            acts=operations.seen_by(tenant, self.acts, origins, _shared_scopes(self.homes)),
            origins=origins,
        )


def world(seed: int) -> World:
    """Make a world up."""
    dice = random.Random(seed)  # noqa: S311 - cases of a test
    layout = _LAYOUTS[seed % len(_LAYOUTS)]
    homes = tuple(layout(n) for n in range(TENANTS))
    shared = _shared_scopes(homes)
    facts: list[Fact] = []
    for key in range(TENANTS * FACTS):
        owner = key % TENANTS
        facts.append(_fact(dice, key, dice.choice(_own_scopes(homes[owner], shared)), owner))
    for number in range(SHARED):
        fact = _fact(dice, len(facts), dice.choice(shared), None)
        # Cells of the tenants in turn remember for the Blueprint that they share.
        is_blueprint = "/formation:" in fact.scope
        author = homes[number % TENANTS] if is_blueprint else None
        facts.append(dataclasses.replace(fact, author=author))
    links, uses = _links(dice, facts, homes), _uses(dice, facts)
    contradicted = {key for x in links if x.kind == "contradicts" for key in (x.start, x.end)}
    played = operations.play(dice, facts, shared, contradicted)
    return World(homes, _mixed(dice, facts), links, uses, played)


def _mixed(dice: random.Random, facts: list[Fact]) -> tuple[tuple[Fact, ...], ...]:
    """Let the tenants take turns, each with some facts at a time, as writers do."""
    turns: list[tuple[Fact, ...]] = []
    for owner in (*range(TENANTS), None):
        owned = [fact for fact in facts if fact.owner == owner]
        turns += [tuple(owned[start : start + _A_TURN]) for start in range(0, len(owned), _A_TURN)]
    dice.shuffle(turns)
    return tuple(turns)


def _shared_scopes(homes: tuple[str, ...]) -> list[str]:
    paths = [{home.rsplit("/", n)[0] for n in range(1, 3)} | {"platform"} for home in homes]
    return sorted(set.intersection(*paths))


def _own_scopes(home: str, shared: list[str]) -> list[str]:
    path = [home, *(home.rsplit("/", n)[0] for n in range(1, 3))]
    return [each for each in path if each not in shared]


def _fact(dice: random.Random, key: int, scope: str, owner: int | None) -> Fact:
    query_text = " ".join(dice.choices(_VOCABULARY, k=dice.randint(4, 14)))
    return Fact(
        key=key,
        scope=scope,
        owner=owner,
        content=f"{query_text} number{key}",
        kind=dice.choice(_KINDS),
        tags=tuple(dice.sample(_VOCABULARY, dice.randint(0, 2))),
        confidence=dice.choice((0.3, 0.5, 0.7, 0.9)),
        # A key of its own scope: what supersedes what is the same whoever else is there.
        subject=dice.choice(_VOCABULARY) if dice.random() < 0.1 else None,
    )


def _links(dice: random.Random, facts: list[Fact], homes: tuple[str, ...]) -> tuple[Link, ...]:
    shared = [fact for fact in facts if fact.owner is None]
    found = []
    for by in range(len(homes)):
        owned = [fact for fact in facts if fact.owner == by]
        for _ in range(40):
            start, end = dice.choice(owned), dice.choice(owned + shared)
            if start.key != end.key:
                kind = dice.choice(("related", "derived_from", "contradicts"))
                found.append(Link(by, start.key, end.key, kind))
    return tuple(found)


def _uses(dice: random.Random, facts: list[Fact]) -> tuple[Used, ...]:
    shared = [fact for fact in facts if fact.owner is None]
    return tuple(
        Used(by, dice.choice(shared).key, dice.choice(_USES), dice.randint(1, 30))
        for _ in range(200)
        for by in range(TENANTS)
    )


@dataclass
class Stored:
    """A world in a store, with what its facts are called there."""

    store: Unrecorded
    ids: dict[int, str] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)

    def tell(self, made: World) -> Stored:
        """Do every act of a world."""
        person = Actor("somebody", "human")
        for part in made.turns:
            entries = [
                remembered
                for author, group in itertools.groupby(part, lambda fact: fact.author)
                for remembered in self.store.remember(
                    [_new(fact) for fact in group], actor=_cell(author) if author else person
                )
            ]
            for fact, stored in zip(part, entries, strict=True):
                self.ids[fact.key] = stored.fact_id
                self.keys[stored.fact_id] = fact.key
        for link in made.links:
            new = NewLink(self.ids[link.start], self.ids[link.end], link.kind)
            self.store.link(new, EVERYTHING, actor=person)
        for by, home in enumerate(made.homes):
            uses = [
                FactUsage(self.ids[each.fact], each.kind, each.count)  # type: ignore[arg-type]
                for each in made.uses
                if each.by == by
            ]
            if uses:
                self.store.count_usage(uses, observer=home, actor="somebody")
        facts = made.origins or {fact.key: fact for fact in made.facts}
        for act in made.acts:
            operations.do(self, act, facts.get(act.fact), made.homes)
        return self


def _new(fact: Fact):  # type: ignore[no-untyped-def]
    fields: dict[str, Any] = {"subject": fact.subject, "predicate": "is"} if fact.subject else {}
    source = Source(type="user_input", actor="somebody")
    if fact.author:
        actor = _cell(fact.author)
        source = Source(type="explicit_remember", actor=actor.name, author=actor.author)
    return new_fact(
        fact.content, fact.scope, kind=fact.kind, tags=fact.tags, confidence=fact.confidence,
        source=source, **fields,
    )  # fmt: skip


def _cell(home: str) -> Actor:
    return Actor(home.replace("/", "-"), "agent", author=home)


class Frozen:
    """A clock that moves a second with each look, alike in every world."""

    def __call__(self) -> datetime:
        return _START


class Unrecorded(SqliteStore):
    """A store whose recalls leave no trace, so that cases do not touch each other."""

    def record_recall_later(self, new: NewReceipt) -> None:
        """Record nothing."""

    def flag(self, fact_id: str, context: ActionContext) -> None:
        """Flag a copy as the closing of its origin does, where there is no origin."""

        def work(tx: Transaction) -> None:
            uow = SqliteUnitOfWork(tx)
            uow.begin()
            close_with_copies.flag_copy(uow, require_fact(uow, fact_id), context)

        self._writer.submit(work)


def open_store(path: Path) -> Unrecorded:
    """Open a store whose time stands still."""
    return Unrecorded(path, Frozen())


def question(dice: random.Random) -> RecallIn:
    """Make a question up."""
    fields: dict[str, object] = {}
    if dice.random() < 0.2:
        fields["kinds"] = (dice.choice(_KINDS),)
    if dice.random() < 0.2:
        fields["min_confidence"] = 0.6
    if dice.random() < 0.1:
        fields["tags"] = (dice.choice(_VOCABULARY),)
    if dice.random() < 0.2:
        fields["max_tokens"] = dice.randint(20, 200)
    query_text = " ".join(dice.choices(_VOCABULARY, k=dice.randint(1, 12)))
    return RecallIn.model_validate(
        {"query": query_text, "limit": dice.choice((1, 5, 10, 20)), **fields}
    )


def recalled(stored: Stored, home: str, asked: RecallIn) -> object:
    """Ask, and return everything of the answer that has no made-up id in it."""
    reader = Principal("reader", "agent", home)
    now = _START + timedelta(days=1)
    answer = recall.recall(stored.store, reader, asked, now=now, idempotency_key=None)
    facts = tuple(
        (
            stored.keys.get(f.id),
            f.rank,
            f.score,
            tuple(sorted(f.parts.items())),
            f.lifecycle,
            f.scope,
        )
        for f in answer.facts
    )
    return facts, answer.scopes, answer.ranker, answer.known_at


def looked_up(stored: Stored, home: str, key: int) -> object:
    """Read one fact by every other way, and return it without made-up ids."""
    view, fact_id = View(home), stored.ids[key]
    reader = AuditReader(view, "reader")
    impact = stored.store.impact(fact_id, reader, limit=100)
    why = stored.store.why(fact_id, reader)
    if impact is None or why is None:
        return None
    store_history = stored.store.history(fact_id, view)
    links = stored.store.links(fact_id, view, types=(), before_id=None, limit=100).links
    listed = stored.store.list_facts(Listing(view, 500, kind=why.fact.kind))
    return (
        [(stored.keys.get(x.from_), stored.keys.get(x.to), x.type) for x in links],
        sorted(stored.keys[each] for each in impact.derived),
        operations.plain(stored, impact),
        {kind: use.count for kind, use in impact.usage.items()},
        sorted(stored.keys[each.id] for each in why.origins),
        operations.plain(stored, (why, store_history)),
        [stored.keys[fact.id] for fact in listed],
        stored.store.scope_stats([why.fact.scope], view)[0].model_dump(exclude={"last_write_at"}),
    )
