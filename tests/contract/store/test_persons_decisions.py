"""An agent does not take back how a person closed a fact."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from knowledge_client.models import ApproveIn, Fact, Retention, ScopeConfig
from knowledge_service.domain.access_control import View
from knowledge_service.errors import Forbidden
from knowledge_service.event_log import event_payloads
from knowledge_service.ports import ActionContext, Actor, Store
from knowledge_service.store.sqlite.store import SqliteStore
from tests.knowledge_builders import AGENT, LEAD, OPERATOR, PERSON, TEAM, new_fact

VIEW = View(LEAD)
MESSAGE = "it is wrong"


def stored(store: Store, content: str = "the build needs Java 21") -> str:
    (remembered,) = store.remember([new_fact(content)], actor=AGENT)
    return remembered.fact_id


def read(store: Store, fact_id: str) -> Fact:
    fact = store.fact(fact_id, VIEW)
    assert fact is not None
    return fact


def retract(store: Store, actor: Actor) -> str:
    fact_id = stored(store, f"the build of {actor.name} needs Java 21")
    store.retract(fact_id, ActionContext(actor, MESSAGE))
    return fact_id


def correct_away(store: Store, actor: Actor) -> str:
    fact_id = stored(store)
    store.correct(fact_id, MESSAGE, None, actor=actor)
    return fact_id


def undo_recording(store: Store, actor: Actor) -> str:
    fact_id = stored(store)
    store.undo(fact_id, ActionContext(actor, MESSAGE))
    return fact_id


CLOSINGS = [retract, correct_away, undo_recording]


@pytest.mark.parametrize("close", CLOSINGS)
def test_agent_does_not_restore_what_a_person_retracted(
    store: Store, close: Callable[[Store, Actor], str]
) -> None:
    fact_id = close(store, PERSON)
    message = (
        f"demo/lead-0 may not restore fact {fact_id}: a person retracted it;"
        " remember what you know instead, or have a person restore it"
    )
    with pytest.raises(Forbidden, match=message):
        store.restore(fact_id, ActionContext(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "retracted"


@pytest.mark.parametrize("close", CLOSINGS)
@pytest.mark.parametrize("closer", [AGENT, OPERATOR], ids=["agent", "operator"])
def test_agent_restores_what_no_person_retracted(
    store: Store, close: Callable[[Store, Actor], str], closer: Actor
) -> None:
    fact_id = close(store, closer)
    assert store.restore(fact_id, ActionContext(AGENT, "it was right")).lifecycle == "live"


def test_person_restores_what_a_person_retracted(store: Store) -> None:
    fact_id = retract(store, PERSON)
    assert store.restore(fact_id, ActionContext(PERSON, "it was right")).lifecycle == "live"


def test_agent_restores_what_an_agent_retracted_after_a_person_had_restored_it(
    store: Store,
) -> None:
    fact_id = retract(store, PERSON)
    store.restore(fact_id, ActionContext(PERSON, "it was right"))
    store.retract(fact_id, ActionContext(AGENT, MESSAGE))
    assert store.restore(fact_id, ActionContext(AGENT, "it was right")).lifecycle == "live"


def test_agent_does_not_restore_what_a_person_corrected(store: Store) -> None:
    fact_id = stored(store)
    store.correct(fact_id, MESSAGE, "the build needs Java 25", actor=PERSON)
    with pytest.raises(Forbidden, match=f"fact {fact_id}: a person superseded it"):
        store.restore(fact_id, ActionContext(AGENT, "it was right"))


NEW = "the build needs Java 25"


def correct(store: Store) -> tuple[str, str]:
    """Have a person correct a fact; return its id and that of the successor."""
    fact_id = stored(store)
    successor = store.correct(fact_id, MESSAGE, NEW, actor=PERSON).replacement_id
    assert successor is not None
    return fact_id, successor


def approve_with_edits(store: Store) -> tuple[str, str]:
    fact_id = stored(store)
    edits = ApproveIn(reason=MESSAGE, content=NEW)
    return fact_id, store.approve(fact_id, ActionContext(PERSON, MESSAGE), edits).fact.id


def supersede_by_key(store: Store) -> tuple[str, str]:
    key: dict[str, Any] = {"subject": "build", "predicate": "needs"}
    past_time = datetime(2020, 1, 1, tzinfo=UTC)
    (old,) = store.remember([new_fact("Java 21", valid_from=past_time, **key)], actor=AGENT)
    (new,) = store.remember([new_fact("Java 25", **key)], actor=PERSON)
    assert new.superseded == (old.fact_id,)
    return old.fact_id, new.fact_id


def retract_new(store: Store, successor: str, actor: Actor) -> None:
    store.retract(successor, ActionContext(actor, MESSAGE))


def correct_new(store: Store, successor: str, actor: Actor) -> None:
    store.correct(successor, MESSAGE, "the build needs Java 26", actor=actor)


@pytest.mark.parametrize("end", [retract_new, correct_new])
@pytest.mark.parametrize("actor", [AGENT, PERSON], ids=["agent", "person"])
@pytest.mark.parametrize("replace", [correct, approve_with_edits, supersede_by_key])
def test_agent_does_not_restore_what_a_person_replaced_once_the_successor_is_closed(
    store: Store,
    replace: Callable[[Store], tuple[str, str]],
    actor: Actor,
    end: Callable[[Store, str, Actor], None],
) -> None:
    fact_id, successor = replace(store)
    end(store, successor, actor)
    with pytest.raises(Forbidden, match=f"may not restore fact {fact_id}: a "):
        store.restore(fact_id, ActionContext(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "superseded"


def test_agent_does_not_restore_what_the_operator_replaced_in_review(store: Store) -> None:
    fact_id = stored(store)
    edits = ApproveIn(reason=MESSAGE, content=NEW)
    successor = store.approve(fact_id, ActionContext(OPERATOR, MESSAGE), edits).fact.id
    store.retract(successor, ActionContext(AGENT, MESSAGE))
    with pytest.raises(Forbidden, match=f"fact {fact_id}: a reviewer replaced its text"):
        store.restore(fact_id, ActionContext(AGENT, "it was right"))


def test_agent_does_not_restore_what_a_reviewer_rejected(store: Store) -> None:
    fact_id = stored(store)
    store.reject(fact_id, ActionContext(PERSON, MESSAGE))
    with pytest.raises(Forbidden, match=f"fact {fact_id}: a reviewer rejected its text"):
        store.restore(fact_id, ActionContext(AGENT, "it was right"))


def test_agent_restores_what_an_agent_superseded_once_the_successor_is_closed(
    store: Store,
) -> None:
    fact_id = stored(store)
    successor = store.correct(fact_id, MESSAGE, NEW, actor=AGENT).replacement_id
    assert successor is not None
    store.retract(successor, ActionContext(PERSON, MESSAGE))
    assert store.restore(fact_id, ActionContext(AGENT, "it was right")).lifecycle == "live"


def test_agent_restores_what_was_archived_for_room_unless_a_person_took_that_back(
    store: Store,
) -> None:
    fact_id = stored(store)
    config = ScopeConfig(retention=Retention(max_facts=1))
    store.put_scope(TEAM, config, actor=PERSON)
    store.remember([new_fact("strong", confidence=0.9)], actor=AGENT)
    assert store.retain() == 1
    assert store.restore(fact_id, ActionContext(AGENT, "it was right")).lifecycle == "live"
    store.undo(fact_id, ActionContext(PERSON, MESSAGE))
    assert read(store, fact_id).lifecycle == "archived"
    with pytest.raises(Forbidden, match=f"fact {fact_id}: a person archived it"):
        store.restore(fact_id, ActionContext(AGENT, "it was right"))


@pytest.mark.parametrize("replacement", [None, "the build needs Java 25"])
def test_agent_does_not_undo_a_correction_by_a_person(
    store: Store, replacement: str | None
) -> None:
    fact_id = stored(store)
    store.correct(fact_id, MESSAGE, replacement, actor=PERSON)
    message = "a person closed a fact with it; only people and the operator may undo it"
    with pytest.raises(Forbidden, match=message):
        store.undo(fact_id, ActionContext(AGENT, "it was right"))
    store.undo(fact_id, ActionContext(PERSON, "it was right"))
    assert read(store, fact_id).lifecycle == "live"


def test_agent_undoes_its_own_correction(store: Store) -> None:
    fact_id = correct_away(store, AGENT)
    store.undo(fact_id, ActionContext(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "live"


def forget_types(path: Path) -> None:
    """Make a log as older versions wrote it: no closing says whether a person did it."""
    db = apsw.Connection(str(path))
    closed = db.execute("SELECT seq, salt, bytes FROM payload JOIN event USING(seq)"
                        " WHERE type = 'fact.closed'").fetchall()  # fmt: skip
    for seq, salt, data in closed:
        (part,) = event_payloads.decode(event_payloads.StoredPayload(salt, data))
        assert part is not None
        initial_stored_payload = event_payloads.encode(
            [{k: v for k, v in part.items() if k != "actor_type"}]
        )
        db.execute("UPDATE payload SET salt = ?, bytes = ? WHERE seq = ?",
                   (initial_stored_payload.salt, initial_stored_payload.data, seq))  # fmt: skip
    db.close()


UNKNOWN = "and the log does not say whether that was a person"


def test_agent_restores_only_its_own_in_a_log_without_types(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        own_fact, second = retract(store, AGENT), retract(store, PERSON)
    forget_types(path)
    with contextlib.closing(SqliteStore(path)) as store:
        assert store.restore(own_fact, ActionContext(AGENT, "it was right")).lifecycle == "live"
        store.retract(own_fact, ActionContext(AGENT, MESSAGE))
        with pytest.raises(Forbidden, match=f"fact {second}: ada closed it, {UNKNOWN}; remember"):
            store.restore(second, ActionContext(AGENT, "it was right"))


@pytest.mark.parametrize("close", [retract, correct_away])
def test_agent_undoes_only_its_own_in_a_log_without_types(
    tmp_path: Path, close: Callable[[Store, Actor], str]
) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        second = close(store, PERSON)
        own_fact = retract(store, AGENT)
    forget_types(path)
    with contextlib.closing(SqliteStore(path)) as store:
        store.undo(own_fact, ActionContext(AGENT, "it was right"))
        assert read(store, own_fact).lifecycle == "live"
        with pytest.raises(Forbidden, match=f"ada closed a fact with it, {UNKNOWN}; only people"):
            store.undo(second, ActionContext(AGENT, "it was right"))
        assert read(store, second).lifecycle == "retracted"


def undo_restoring(store: Store, actor: Actor) -> str:
    fact_id = retract(store, AGENT)
    store.restore(fact_id, ActionContext(AGENT, "it was right"))
    store.undo(fact_id, ActionContext(actor, MESSAGE))
    return fact_id


def test_agent_does_not_get_around_a_persons_undo_by_undoing_what_was_before(store: Store) -> None:
    fact_id = undo_restoring(store, PERSON)
    message = "a person closed a fact since that it would make live again; only people"
    for take_back in (store.restore, store.undo):
        with pytest.raises(Forbidden, match="a person"):
            take_back(fact_id, ActionContext(AGENT, "it was right"))
    with pytest.raises(Forbidden, match=message):
        store.undo(fact_id, ActionContext(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "retracted"
    store.undo(fact_id, ActionContext(PERSON, "it was right"))
    assert read(store, fact_id).lifecycle == "live"


@pytest.mark.parametrize("actor", [AGENT, OPERATOR], ids=["agent", "operator"])
def test_agent_undoes_what_was_before_an_undo_by_no_person(store: Store, actor: Actor) -> None:
    fact_id = undo_restoring(store, actor)
    store.undo(fact_id, ActionContext(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "live"


def test_agent_undoes_an_archiving_for_room(store: Store) -> None:
    fact_id = stored(store)
    store.put_scope(TEAM, ScopeConfig(retention=Retention(max_facts=1)), actor=PERSON)
    store.remember([new_fact("strong", confidence=0.9)], actor=AGENT)
    assert store.retain() == 1
    store.undo(fact_id, ActionContext(AGENT, "it was right"))
    assert read(store, fact_id).lifecycle == "live"
