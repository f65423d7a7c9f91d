"""What tenants do besides telling: verbs on their facts, promotions, and runs with all they leave.

In the world of one tenant alone, the acts of the others are left out. A promotion of theirs leaves
a copy in front of everybody, so there the copy is told as the promotion would write it, and closed
or flagged with the words of the withdrawal: a copy does not reveal the owner of its origin. A run
of theirs that makes its scope's rule promote facts leaves such copies too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from knowledge_client.models import (
    ApproveIn,
    BlueprintName,
    Promotion,
    Recalled,
    Receipt,
    ScopeConfig,
    Source,
)
from knowledge_service.domain.access_control import EVERYTHING, PLATFORM, View, lineage, realm_of
from knowledge_service.domain.run_reports import key_of
from knowledge_service.fact_transactions import promote
from knowledge_service.ports import ActionContext, Actor, AuditReader, NewReceipt, RunListing, Store
from tests.knowledge_builders import episode, new_fact, run_in

if TYPE_CHECKING:
    from tests.contract.isolation.worlds import Fact, Stored

PERSON, OTHER_ACTOR = Actor("somebody", "human"), Actor("somebody else", "human")
ACTION_CONTEXT = ActionContext(PERSON, "because")
_PLAIN = (
    "correct",
    "revise",
    "retract",
    "restore",
    "confirm",
    "reject",
    "approve",
    "erase",
    "undo",
)
# What becomes of the origin of a promotion, and what the withdrawal of the copy then says.
_WITHDRAWN = {
    "correct": "corrected", "retract": "retracted", "reject": "rejected", "approve": "corrected",
}  # fmt: skip
_RUNS = ("nightly", "weekly")
_AUTOMATIC = ScopeConfig(
    promotion=Promotion(policy="Automatic", min_missions=1, min_confidence=0.0)
)
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Act:
    """One act of a tenant (`by` None: of all of them) on a fact; `new` is the key of what it makes.

    Of a run, `fact` is its number, and `recalled` are the facts that were in front of it; its end
    promotes each fact of `promoted`, with the key of the copy.
    """

    by: int | None
    verb: str
    fact: int
    new: int = -1
    recalled: tuple[int, ...] = ()
    promoted: tuple[tuple[int, int], ...] = ()


def play(
    dice: random.Random, facts: Sequence[Fact], shared: Sequence[str], contradicted: set[int]
) -> tuple[Act, ...]:
    """Make up what tenants do with their facts; each has its turn after the other.

    No rule promotes the facts in `contradicted`.
    """
    fresh = iter(range(len(facts), 10 * len(facts)))
    owners = sorted({fact.owner for fact in facts if fact.owner is not None})
    waiting = [_of_tenant(dice, facts, by, shared, contradicted, fresh.__next__) for by in owners]
    acts: list[Act] = []
    while any(waiting):
        turn = dice.choice([own_entries for own_entries in waiting if own_entries])
        acts.append(turn.pop(0))
    return tuple(acts)


def _of_tenant(
    dice: random.Random, facts: Sequence[Fact], by: int, shared: Sequence[str],
    contradicted: set[int], fresh: Callable[[], int],
) -> list[Act]:  # fmt: skip
    own_facts = [fact for fact in facts if fact.owner == by and fact.subject is None]
    at_the_edge = [fact for fact in own_facts if lineage(fact.scope)[1] in shared]
    promoted = dice.sample(at_the_edge, 8)
    acts = [Act(by, "promote", fact.key, fresh()) for fact in promoted]
    copies = [act.new for act in acts]
    acts += [Act(None, "confirm", copy) for copy in copies[6:]]
    for origin, verb in zip(promoted, _WITHDRAWN, strict=False):
        acts.append(Act(by, verb, origin.key, fresh()))
    acts.append(Act(by, "undo", promoted[len(_WITHDRAWN)].key))
    acts.append(Act(by, "retract", promoted[6].key))  # its copy was confirmed, so it is flagged
    rest = [fact for fact in own_facts if fact not in promoted]
    ruled = _ruled(rest, at_the_edge[0].scope)
    proven = dice.sample([fact for fact in ruled if fact.key not in contradicted], 3)
    rest = [fact for fact in rest if fact not in proven]
    for number, fact in enumerate(dice.sample(rest, 2 * len(_PLAIN))):
        acts.append(Act(by, _PLAIN[number % len(_PLAIN)], fact.key, fresh()))
    displayed_keys = [
        fact.key for fact in facts if fact.owner is None or (fact in rest and fact not in ruled)
    ]
    copied = tuple((fact.key, fresh()) for fact in proven)
    keys = tuple(fact.key for fact in proven)
    first = Act(by, "run", 0, fresh(), (*keys, *dice.sample(displayed_keys, 12)), copied)
    second = Act(by, "run", 1, fresh(), tuple(dice.sample(displayed_keys, 12)))
    # The copies: one stands, one is withdrawn with its origin, one was confirmed and is flagged.
    readers = None if lineage(proven[0].scope)[1] in shared else by
    final_entries = [
        Act(readers, "confirm", copied[2][1]),
        Act(by, "correct", keys[1], fresh()),
        Act(by, "retract", keys[2]),
    ]
    return [*acts[:9], Act(by, "rule", keys[0]), first, *final_entries, *acts[9:], second]


def _ruled(own_facts: Sequence[Fact], edge: str) -> list[Fact]:
    """Return the facts of the widest scope from which a rule promotes: never to the platform."""
    is_below = lineage(edge)[1] == PLATFORM
    return [f for f in own_facts if edge == (lineage(f.scope)[1] if is_below else f.scope)]


def seen_by(
    tenant: int, acts: Iterable[Act], origins: dict[int, Fact], shared: Sequence[str]
) -> tuple[Act, ...]:
    """Return the acts of a world in which the tenant is alone."""
    entries: list[Act] = []
    copies: dict[int, int] = {}
    confirmed: set[int] = set()
    for act in acts:
        if act.verb == "confirm":
            confirmed.add(act.fact)
        if act.by in (None, tenant):
            entries.append(act)
        elif act.verb == "run":
            # The end of a run promotes in the order in which the facts were told, as here.
            manifest = dict(act.promoted)
            visible = [
                (key, manifest[key])
                for key, fact in origins.items()
                if key in manifest and lineage(fact.scope)[1] in shared
            ]
            copies |= visible
            entries += [Act(None, "copy by rule", fact, new) for fact, new in visible]
        elif act.verb == "promote":
            copies[act.fact] = act.new
            entries.append(Act(None, "copy", act.fact, act.new))
        elif act.fact in copies and act.verb in _WITHDRAWN and act.fact in origins:
            verb = "flag" if copies[act.fact] in confirmed else "withdraw"
            entries.append(Act(None, f"{verb}:{_WITHDRAWN[act.verb]}", copies[act.fact]))
        elif act.fact in copies and act.verb == "undo":
            entries.append(Act(None, "undo", copies[act.fact]))
    return tuple(entries)


def do(stored: Stored, act: Act, origin: Fact | None, homes: Sequence[str]) -> None:
    """Do an act; `origin` is the fact that it is about, as it was told."""
    store, known_name = stored.store, stored.ids.get(act.fact, "")
    created: str | None = None
    if act.verb == "run" and act.by is not None:
        created = _run(stored, act, homes[act.by])
    elif act.verb == "rule" and origin:
        store.put_scope(origin.scope, _AUTOMATIC, actor=PERSON)
    elif act.verb in _COPYING and origin:
        actor = _COPYING[act.verb]
        created = store.remember([_copy(origin, actor)], actor=actor)[0].fact_id
    elif act.verb in _MAKING:
        created = _MAKING[act.verb](store, known_name, act.new)
    elif act.verb.startswith(("withdraw:", "flag:")):
        verb, _, cause = act.verb.partition(":")
        context = ActionContext(PERSON, f"the fact that it was copied from was {cause}")
        close = store.retract if verb == "withdraw" else store.flag
        close(known_name, context)
    else:
        _CHANGING[act.verb](store, known_name)
    if created:
        stored.ids[act.new], stored.keys[created] = created, act.new


def _correct(store: Store, fact_id: str, new: int) -> str | None:
    return store.correct(fact_id, "wrong", f"rather number{new}", actor=PERSON).replacement_id


def _revise(store: Store, fact_id: str, new: int) -> str:
    changes = {"content": f"revised number{new}"}
    return store.revise(fact_id, changes, ACTION_CONTEXT).successor_id


def _approve(store: Store, fact_id: str, new: int) -> str:
    edits = ApproveIn(reason="better", content=f"better number{new}")
    return store.approve(fact_id, ACTION_CONTEXT, edits).fact.id


def _restore(store: Store, fact_id: str) -> None:
    store.retract(fact_id, ACTION_CONTEXT)
    store.restore(fact_id, ACTION_CONTEXT)


_COPYING = {"copy": PERSON, "copy by rule": promote.ACTOR}
_MAKING: Mapping[str, Callable[[Store, str, int], str | None]] = {
    "promote": lambda store, fact_id, _: store.promote(fact_id, ACTION_CONTEXT).copy_id,
    "correct": _correct,
    "revise": _revise,
    "approve": _approve,
}
_CHANGING: Mapping[str, Callable[[Store, str], object]] = {
    "retract": lambda store, fact_id: store.retract(fact_id, ACTION_CONTEXT),
    "restore": _restore,
    "confirm": lambda store, fact_id: store.confirm(
        fact_id, ActionContext(OTHER_ACTOR, ""), "a session"
    ),
    "reject": lambda store, fact_id: store.reject(fact_id, ACTION_CONTEXT),
    "erase": lambda store, fact_id: store.erase(fact_id, ACTION_CONTEXT),
    "undo": lambda store, fact_id: store.undo(fact_id, ACTION_CONTEXT),
}


def _copy(origin: Fact, actor: Actor):  # type: ignore[no-untyped-def]
    """Write what a promotion writes, without the origin."""
    return new_fact(
        origin.content, lineage(origin.scope)[1], kind=origin.kind, tags=origin.tags,
        confidence=round(origin.confidence * 0.9, 6),
        source=Source(type="promoted", actor=actor.name),
    )  # fmt: skip


def _run(stored: Stored, act: Act, home: str) -> str:
    """Open a run, note what happens, recall for it, close it, and extract a fact of it.

    Tenants of different realms give their runs the same ids.
    """
    store, namespace = stored.store, realm_of(home).partition(":")[2]
    run_id = _RUNS[act.fact] if namespace != "shared" else f"{_RUNS[act.fact]}-{act.by}"
    fields = {"namespace": namespace, "scope": home, "mission": "m", "parameters": {"n": act.fact}}
    key = key_of(store.put_run(run_id, run_in(**fields), actor=PERSON))
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
    store.put_run(run_id, run_in(**fields, outcome=outcome), actor=PERSON)
    for fact, new in act.promoted:
        impact = store.impact(stored.ids[fact], AuditReader(EVERYTHING, "reader"), limit=1)
        (copy,) = impact.copies if impact else ()
        stored.ids[new], stored.keys[copy] = copy, new
    store.accept_extraction(key, 3, actor=PERSON)
    learnt = new_fact(f"learnt number{act.new}", home)
    return store.finish_extraction(key, [learnt], "little", actor=PERSON).facts[0]


def record(stored: Stored, home: str) -> str:
    """Read all runs, their records and statistics, and the events, without made-up ids."""
    store, view = stored.store, View(home)
    runs = store.list_runs(RunListing(view, 100))
    name = BlueprintName(namespace=realm_of(home).partition(":")[2], name="review")
    results: list[object] = [runs, store.blueprint_stats([name], view)]
    results += [store.parameter_stats(name, view), store.run_samples(name, view)]
    results += [*(store.runs_named(r, view) for r in _RUNS)]
    for run in runs:
        results += [store.episodes(key_of(run)), store.extraction(key_of(run))]
    position, last = 0, store.bounds()[1]
    while position < last:
        changes = store.changes(position, view, limit=10_000)
        results += [
            (c.type, c.scope, c.actor, c.facts, len(c.links), c.run) for c in changes.changes
        ]
        position = changes.position
    return plain(stored, results)


def plain(stored: Stored, value: object) -> str:
    """Write a value with the keys of facts in the place of their ids."""
    return _ID.sub(lambda match: f"<{stored.keys.get(match[0])}>", repr(value))
