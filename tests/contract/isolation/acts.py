"""What tenants do besides telling: verbs on their facts, promotions, and runs with all they leave.

In the world of one tenant alone, the acts of the others are left out. A promotion of theirs leaves
a copy in front of everybody, so there the copy is told as the promotion would write it, and closed
with the words of the withdrawal: nobody can tell a copy by who has its origin.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from knowledge_client.models import ApproveIn, BlueprintName, Recalled, Receipt, Source
from knowledge_service.domain.runs import key_of
from knowledge_service.domain.visibility import View, lineage, realm_of
from knowledge_service.ports import Actor, NewReceipt, Order, RunListing, Store
from tests.builders_knowledge import episode, new_fact, run_in

if TYPE_CHECKING:
    from tests.contract.isolation.worlds import Fact, Stored

PERSON, OTHER = Actor("somebody", "human"), Actor("somebody else", "human")
WHY = Order(PERSON, "because")
_PLAIN = ("correct", "retract", "restore", "confirm", "reject", "approve", "erase", "undo")
# What becomes of the origin of a promotion, and what the withdrawal of the copy then says.
_WITHDRAWN = {
    "correct": "corrected", "retract": "retracted", "reject": "rejected", "approve": "corrected",
}  # fmt: skip
_RUNS = ("nightly", "weekly")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Act:
    """One act of a tenant (`by` None: of all of them) on a fact; `new` is the key of what it makes.

    Of a run, `fact` is its number, and `recalled` are the facts that were in front of it.
    """

    by: int | None
    verb: str
    fact: int
    new: int = -1
    recalled: tuple[int, ...] = ()


def play(dice: random.Random, facts: Sequence[Fact], shared: Sequence[str]) -> tuple[Act, ...]:
    """Make up what tenants do with their facts; each has its turn after the other."""
    fresh = iter(range(len(facts), 10 * len(facts)))
    owners = sorted({fact.owner for fact in facts if fact.owner is not None})
    waiting = [_of_tenant(dice, facts, by, shared, fresh.__next__) for by in owners]
    acts: list[Act] = []
    while any(waiting):
        turn = dice.choice([own for own in waiting if own])
        acts.append(turn.pop(0))
    return tuple(acts)


def _of_tenant(
    dice: random.Random, facts: Sequence[Fact], by: int, shared: Sequence[str],
    fresh: Callable[[], int],
) -> list[Act]:  # fmt: skip
    own = [fact for fact in facts if fact.owner == by and fact.subject is None]
    at_the_edge = [fact for fact in own if lineage(fact.scope)[1] in shared]
    promoted = dice.sample(at_the_edge, 8)
    acts = [Act(by, "promote", fact.key, fresh()) for fact in promoted]
    copies = [act.new for act in acts]
    acts += [Act(None, "confirm", copy) for copy in copies[6:]]
    for origin, verb in zip(promoted, _WITHDRAWN, strict=False):
        acts.append(Act(by, verb, origin.key, fresh()))
    acts.append(Act(by, "undo", promoted[len(_WITHDRAWN)].key))
    rest = [fact for fact in own if fact not in promoted]
    for number, fact in enumerate(dice.sample(rest, 2 * len(_PLAIN))):
        acts.append(Act(by, _PLAIN[number % len(_PLAIN)], fact.key, fresh()))
    shown = [fact.key for fact in facts if fact.owner is None or fact in rest]
    runs = [
        Act(by, "run", number, fresh(), tuple(dice.sample(shown, 12)))
        for number in range(len(_RUNS))
    ]
    return [*acts[:9], runs[0], *acts[9:], runs[1]]


def seen_by(tenant: int, acts: Iterable[Act], origins: dict[int, Fact]) -> tuple[Act, ...]:
    """Return the acts of a world in which the tenant is alone."""
    found: list[Act] = []
    copies: dict[int, int] = {}
    for act in acts:
        if act.by in (None, tenant):
            found.append(act)
        elif act.verb == "promote":
            copies[act.fact] = act.new
            found.append(Act(None, "copy", act.fact, act.new))
        elif act.fact in copies and act.verb in _WITHDRAWN and act.fact in origins:
            found.append(Act(None, f"withdraw:{_WITHDRAWN[act.verb]}", copies[act.fact]))
        elif act.fact in copies and act.verb == "undo":
            found.append(Act(None, "undo", copies[act.fact]))
    return tuple(found)


def do(stored: Stored, act: Act, origin: Fact | None, homes: Sequence[str]) -> None:
    """Do an act; `origin` is the fact that it is about, as it was told."""
    store, known = stored.store, stored.ids.get(act.fact, "")
    made: str | None = None
    if act.verb == "run" and act.by is not None:
        made = _run(stored, act, homes[act.by])
    elif act.verb == "copy" and origin:
        made = store.remember([_copy(origin)], actor=PERSON)[0].fact_id
    elif act.verb in _MAKING:
        made = _MAKING[act.verb](store, known, act.new)
    elif act.verb.startswith("withdraw:"):
        cause = act.verb.partition(":")[2]
        store.retract(known, Order(PERSON, f"the fact that it was copied from was {cause}"))
    else:
        _CHANGING[act.verb](store, known)
    if made:
        stored.ids[act.new], stored.keys[made] = made, act.new


def _correct(store: Store, fact_id: str, new: int) -> str | None:
    return store.correct(fact_id, "wrong", f"rather number{new}", actor=PERSON).replacement_id


def _approve(store: Store, fact_id: str, new: int) -> str:
    edits = ApproveIn(reason="better", content=f"better number{new}")
    return store.approve(fact_id, WHY, edits).fact.id


def _restore(store: Store, fact_id: str) -> None:
    store.retract(fact_id, WHY)
    store.restore(fact_id, WHY)


_MAKING: Mapping[str, Callable[[Store, str, int], str | None]] = {
    "promote": lambda store, fact_id, _: store.promote(fact_id, WHY).copy_id,
    "correct": _correct,
    "approve": _approve,
}
_CHANGING: Mapping[str, Callable[[Store, str], object]] = {
    "retract": lambda store, fact_id: store.retract(fact_id, WHY),
    "restore": _restore,
    "confirm": lambda store, fact_id: store.confirm(fact_id, Order(OTHER, ""), "a session"),
    "reject": lambda store, fact_id: store.reject(fact_id, WHY),
    "erase": lambda store, fact_id: store.erase(fact_id, WHY),
    "undo": lambda store, fact_id: store.undo(fact_id, WHY),
}


def _copy(origin: Fact):  # type: ignore[no-untyped-def]
    """Write what a promotion writes, without the origin."""
    return new_fact(
        origin.content, lineage(origin.scope)[1], kind=origin.kind, tags=origin.tags,
        confidence=round(origin.confidence * 0.9, 6),
        source=Source(type="promoted", actor=PERSON.name),
    )  # fmt: skip


def _run(stored: Stored, act: Act, home: str) -> str:
    """Open a run, note what happens, recall for it, close it, and extract a fact of it.

    Tenants of different realms give their runs the same ids.
    """
    store, namespace = stored.store, realm_of(home).partition(":")[2]
    run_id = _RUNS[act.fact] if namespace != "shared" else f"{_RUNS[act.fact]}-{act.by}"
    given = {"namespace": namespace, "scope": home, "mission": "m", "parameters": {"n": act.fact}}
    key = key_of(store.put_run(run_id, run_in(**given), actor=PERSON))
    lines = [episode("looked"), episode("no such image", type="error", error_signature="Pull")]
    store.add_episodes(key, lines, actor=PERSON)
    recalled = [stored.ids[number] for number in act.recalled]
    receipt = Receipt(
        id=f"receipt-{act.by}-{act.fact}", query_hash="", principal="reader", scopes=(home,),
        known_at=datetime(2026, 3, 1, 12, tzinfo=UTC), ranker="", analyser="", run=run_id,
        facts=tuple(recalled), scores=tuple(1.0 for _ in recalled),
    )  # fmt: skip
    answer = Recalled(receipt=receipt.id, facts=(), scopes=(), known_at=receipt.known_at, ranker="")
    store.record_recall(NewReceipt(receipt, home), answer, None)
    outcome = ("Succeeded", "Failed")[act.fact % 2]
    store.put_run(run_id, run_in(**given, outcome=outcome), actor=PERSON)
    store.accept_extraction(key, 3, actor=PERSON)
    learnt = new_fact(f"learnt number{act.new}", home)
    return store.finish_extraction(key, [learnt], "little", actor=PERSON).facts[0]


def record(stored: Stored, home: str) -> str:
    """Read all runs, their records and statistics, and the events, without made-up ids."""
    store, view = stored.store, View(home)
    runs = store.list_runs(RunListing(view, 100))
    name = BlueprintName(namespace=realm_of(home).partition(":")[2], name="review")
    found: list[object] = [runs, store.blueprint_stats([name], view)]
    found += [store.parameter_stats(name, view), *(store.runs_named(r, view) for r in _RUNS)]
    for run in runs:
        found += [store.episodes(key_of(run)), store.extraction(key_of(run))]
    position, last = 0, store.bounds()[1]
    while position < last:
        changes = store.changes(position, view, limit=10_000)
        found += [(c.type, c.scope, c.actor, c.facts, len(c.links), c.run) for c in changes.found]
        position = changes.position
    return plain(stored, found)


def plain(stored: Stored, value: object) -> str:
    """Write a value with the keys of facts in the place of their ids."""
    return _ID.sub(lambda match: f"<{stored.keys.get(match[0])}>", repr(value))
