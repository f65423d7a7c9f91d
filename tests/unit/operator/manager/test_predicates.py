"""Which watch events of our own writes are worth a look, and whose."""

from __future__ import annotations

import pytest

from kais_operator.manager.predicates import EventEnqueuer, OwnWriteFilter
from kais_operator.planning.plan import Body, ObjectRef

FORMATION = ObjectRef("Formation", "demo", "f")
CELL = ObjectRef("Cell", "demo", "f-lead-0")


def versioned(ref: ObjectRef, version: str, **changed: object) -> Body:
    metadata = {"name": ref.name, "namespace": "demo", "resourceVersion": version, **changed}
    return {"kind": ref.kind, "metadata": metadata, "spec": {"a": 1}}


class Queue:
    def __init__(self, echoes: OwnWriteFilter) -> None:
        self.added: list[tuple[ObjectRef, float]] = []
        self.triggers = EventEnqueuer(
            echoes, lambda key, after_s: self.added.append((key, after_s))
        )

    def tell(self, key: ObjectRef, reference: ObjectRef, version: str | None) -> None:
        self.triggers.enqueue(key, source=reference, version=version, delay_s=0.1)


def test_our_own_status_write_is_an_echo():
    echoes = OwnWriteFilter()
    echoes.record_status_write(
        FORMATION, observed=versioned(FORMATION, "8"), updated=versioned(FORMATION, "10")
    )
    assert echoes.is_own_write(FORMATION, "10", key=FORMATION)
    assert echoes.is_own_write(FORMATION, "9", key=FORMATION)
    assert not echoes.is_own_write(FORMATION, "11", key=FORMATION)
    assert not echoes.is_own_write(CELL, "10", key=CELL)


def test_a_status_over_somebodys_edit_is_no_echo():
    echoes = OwnWriteFilter()
    edited = versioned(FORMATION, "3", annotations={"a": "b"})
    echoes.record_status_write(FORMATION, observed=versioned(FORMATION, "1"), updated=edited)
    assert not echoes.is_own_write(FORMATION, "3", key=FORMATION)


def test_a_child_that_we_made_concerns_itself_and_not_who_made_it():
    echoes = OwnWriteFilter()
    echoes.record_write(versioned(CELL, "5"), key=FORMATION)
    queue = Queue(echoes)
    queue.tell(FORMATION, CELL, "5")
    queue.tell(CELL, CELL, "5")
    assert queue.added == [(CELL, 0.1)]


def test_a_write_is_forgotten_when_its_event_has_arrived():
    echoes = OwnWriteFilter()
    echoes.record_write(versioned(CELL, "5"), key=FORMATION)
    echoes.record_write(versioned(CELL, "7"), key=FORMATION)
    queue = Queue(echoes)
    queue.tell(FORMATION, CELL, "5")
    assert len(echoes) == 1
    queue.tell(FORMATION, CELL, "7")
    assert (len(echoes), queue.added) == (0, [])


def test_a_write_is_forgotten_when_its_object_was_deleted():
    echoes = OwnWriteFilter()
    echoes.record_write(versioned(CELL, "5"), key=FORMATION)
    Queue(echoes).tell(FORMATION, CELL, None)
    assert len(echoes) == 0


def test_an_edit_after_a_forgotten_write_concerns_its_key():
    echoes = OwnWriteFilter()
    echoes.record_write(versioned(CELL, "5"), key=FORMATION)
    queue = Queue(echoes)
    queue.tell(FORMATION, CELL, "5")
    queue.tell(FORMATION, CELL, "6")
    assert queue.added == [(FORMATION, 0.1)]


def test_a_child_that_goes_always_concerns_who_made_it():
    echoes = OwnWriteFilter()
    echoes.record_write(versioned(CELL, "5"), key=FORMATION)
    queue = Queue(echoes)
    queue.tell(FORMATION, CELL, None)
    assert queue.added == [(FORMATION, 0.1)]


def test_an_event_that_comes_before_the_answer_to_its_write_is_an_echo_too():
    echoes = OwnWriteFilter()
    queue = Queue(echoes)
    with queue.triggers.reconciling(FORMATION):
        queue.tell(FORMATION, CELL, "5")
        echoes.record_write(versioned(CELL, "5"), key=FORMATION)
    assert queue.added == []


def test_no_event_of_a_reconcile_that_wrote_twice_causes_another():
    echoes = OwnWriteFilter()
    queue = Queue(echoes)
    with queue.triggers.reconciling(FORMATION):
        queue.tell(FORMATION, FORMATION, "5")
        echoes.record_write(versioned(FORMATION, "6"), key=FORMATION)
        queue.tell(FORMATION, FORMATION, "6")
    assert (queue.added, len(echoes)) == ([], 0)


def test_somebodys_edit_during_a_look_is_looked_at_after_it():
    queue = Queue(OwnWriteFilter())
    with queue.triggers.reconciling(FORMATION):
        queue.tell(FORMATION, CELL, "5")
        assert queue.added == []
    assert queue.added == [(FORMATION, 0.1)]


def test_what_comes_during_a_look_that_fails_is_not_lost():
    queue = Queue(OwnWriteFilter())

    def look_and_fail() -> None:
        with queue.triggers.reconciling(FORMATION):
            queue.tell(FORMATION, CELL, "5")
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        look_and_fail()
    assert queue.added == [(FORMATION, 0.1)]


USE = ObjectRef("BlueprintInstance", "demo", "f")


def test_a_formation_is_looked_at_when_the_use_that_made_it_has_told_so():
    queue = Queue(OwnWriteFilter())
    with queue.triggers.reconciling(USE):
        queue.triggers.enqueue(FORMATION, source=FORMATION, version="5", delay_s=0, creator=USE)
        assert queue.added == []
    assert queue.added == [(FORMATION, 0)]


def test_a_formation_does_not_wait_for_a_use_that_nobody_looks_at():
    queue = Queue(OwnWriteFilter())
    queue.triggers.enqueue(FORMATION, source=FORMATION, version="5", delay_s=0, creator=USE)
    assert queue.added == [(FORMATION, 0)]
