"""An agent does not take back how a person closed a fact."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from knowledge_client.models import Fact
from knowledge_service.domain.visibility import View
from knowledge_service.errors import Forbidden
from knowledge_service.event_log import event_payloads
from knowledge_service.ports import Actor, Order, Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.builders_knowledge import AGENT, LEAD, OPERATOR, PERSON, new_fact

VIEW = View(LEAD)
WHY = "it is wrong"


def stored(store: Store, content: str = "the build needs Java 21") -> str:
    (found,) = store.remember([new_fact(content)], actor=AGENT)
    return found.fact_id


def read(store: Store, fact_id: str) -> Fact:
    found = store.fact(fact_id, VIEW)
    assert found is not None
    return found


def retract(store: Store, actor: Actor) -> str:
    fact_id = stored(store, f"the build of {actor.name} needs Java 21")
    store.retract(fact_id, Order(actor, WHY))
    return fact_id


def correct_away(store: Store, actor: Actor) -> str:
    fact_id = stored(store)
    store.correct(fact_id, WHY, None, actor=actor)
    return fact_id


def undo_recording(store: Store, actor: Actor) -> str:
    fact_id = stored(store)
    store.undo(fact_id, Order(actor, WHY))
    return fact_id


CLOSINGS = [retract, correct_away, undo_recording]


@pytest.mark.parametrize("close", CLOSINGS)
def test_agent_does_not_restore_what_a_person_retracted(
    store: Store, close: Callable[[Store, Actor], str]
) -> None:
    fact_id = close(store, PERSON)
    words = (
        f"demo/lead-0 may not restore fact {fact_id}: a person retracted it;"
        " remember what you know instead, or have a person restore it"
    )
    with pytest.raises(Forbidden, match=words):
        store.restore(fact_id, Order(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "retracted"


@pytest.mark.parametrize("close", CLOSINGS)
@pytest.mark.parametrize("closer", [AGENT, OPERATOR], ids=["agent", "operator"])
def test_agent_restores_what_no_person_retracted(
    store: Store, close: Callable[[Store, Actor], str], closer: Actor
) -> None:
    fact_id = close(store, closer)
    assert store.restore(fact_id, Order(AGENT, "it was right")).lifecycle == "live"


def test_person_restores_what_a_person_retracted(store: Store) -> None:
    fact_id = retract(store, PERSON)
    assert store.restore(fact_id, Order(PERSON, "it was right")).lifecycle == "live"


def test_agent_restores_what_an_agent_retracted_after_a_person_had_restored_it(
    store: Store,
) -> None:
    fact_id = retract(store, PERSON)
    store.restore(fact_id, Order(PERSON, "it was right"))
    store.retract(fact_id, Order(AGENT, WHY))
    assert store.restore(fact_id, Order(AGENT, "it was right")).lifecycle == "live"


def test_agent_does_not_restore_what_a_person_corrected(store: Store) -> None:
    fact_id = stored(store)
    store.correct(fact_id, WHY, "the build needs Java 25", actor=PERSON)
    with pytest.raises(Forbidden, match=f"fact {fact_id}: a person corrected it"):
        store.restore(fact_id, Order(AGENT, "it was right"))


@pytest.mark.parametrize("replacement", [None, "the build needs Java 25"])
def test_agent_does_not_undo_a_correction_by_a_person(
    store: Store, replacement: str | None
) -> None:
    fact_id = stored(store)
    store.correct(fact_id, WHY, replacement, actor=PERSON)
    words = "a person closed a fact with it; only people and the operator take that back"
    with pytest.raises(Forbidden, match=words):
        store.undo(fact_id, Order(AGENT, "it was right"))
    store.undo(fact_id, Order(PERSON, "it was right"))
    assert read(store, fact_id).lifecycle == "live"


def test_agent_undoes_its_own_correction(store: Store) -> None:
    fact_id = correct_away(store, AGENT)
    store.undo(fact_id, Order(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "live"


def test_agent_restores_only_its_own_in_a_log_without_types(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        own, other = retract(store, AGENT), retract(store, PERSON)
    db = apsw.Connection(str(path))
    closed = db.execute("SELECT seq, salt, bytes FROM payload JOIN event USING(seq)"
                        " WHERE type = 'fact.closed'").fetchall()  # fmt: skip
    for seq, salt, data in closed:
        (part,) = event_payloads.decode(event_payloads.StoredPayload(salt, data))
        assert part is not None
        before = event_payloads.encode([{k: v for k, v in part.items() if k != "actor_type"}])
        db.execute("UPDATE payload SET salt = ?, bytes = ? WHERE seq = ?",
                   (before.salt, before.data, seq))  # fmt: skip
    db.close()
    with contextlib.closing(SqliteStore(path)) as store:
        assert store.restore(own, Order(AGENT, "it was right")).lifecycle == "live"
        store.retract(own, Order(AGENT, WHY))
        with pytest.raises(Forbidden, match="a person retracted it"):
            store.restore(other, Order(AGENT, "it was right"))
