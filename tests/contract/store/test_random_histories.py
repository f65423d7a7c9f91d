"""Random histories: undo gives back what was, nothing closes without cause, the log is enough."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_client.models import ApproveIn, Fact
from knowledge_service.errors import Conflict, PreviouslyRetracted
from knowledge_service.ports import ActionContext, Listing, Store
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.conftest import Time
from tests.fakes.store import MemoryStore
from tests.knowledge_builders import AGENT, ALL, PERSON, TEAM, new_fact

START = datetime(2026, 1, 1, tzinfo=UTC)
CONTENTS = ("Java 17", "Java 21", "Java 25")
ACTION_CONTEXT = ActionContext(PERSON, "because")

Step = tuple[str, int, int]
STEP = st.tuples(
    st.sampled_from(
        ("tell", "tell", "tell", "tell keyed", "tell keyed", "tell late", "tell draft",
         "tell draft", "correct", "retract", "restore", "confirm", "promote", "approve",
         "reject", "undo")
    ),
    st.integers(0, 5),
    st.integers(0, 2),
)  # fmt: skip
HISTORY = st.lists(STEP, max_size=14)
SETTINGS = settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)


def ids(store: Store) -> list[str]:
    return sorted(fact.id for fact in store.list_facts(Listing(ALL, 1000)))


def take(store: Store, step: Step) -> list[str]:
    """Do one thing; return the facts that an undo of it may be asked on. Refusals do nothing."""
    verb, selector, content = step
    intervals = ids(store)
    fact_id = intervals[selector % len(intervals)] if intervals else None
    with contextlib.suppress(Conflict, PreviouslyRetracted):
        if verb.startswith("tell"):
            (remembered,) = store.remember([_told(verb, selector, content)], actor=_actor(selector))
            return [remembered.fact_id]
        if fact_id is not None:
            _act(store, verb, fact_id, content)
            return [fact_id]
    return []


def _actor(selector: int) -> Any:
    return AGENT if selector % 2 else PERSON


def _told(verb: str, selector: int, content: int) -> Any:
    value: dict[str, Any] = {"confidence": (selector + 1) / 8, "tags": (f"t{selector}",)}
    if verb != "tell":
        value |= {"subject": f"build {selector % 2}", "predicate": "needs"}
    if verb == "tell late":
        value["valid_from"] = START + timedelta(days=selector)
    if verb == "tell draft":
        value["review"] = "draft"
    scope = TEAM if selector % 3 else "realm:demo"
    return new_fact(CONTENTS[content], scope=scope, **value)


def _act(store: Store, verb: str, fact_id: str, content: int) -> None:
    if verb == "correct":
        store.correct(fact_id, "old", f"{CONTENTS[content]} now", actor=PERSON)
    elif verb == "approve":
        edited = f"{CONTENTS[content]}, checked" if content else None
        store.approve(fact_id, ACTION_CONTEXT, ApproveIn(reason="r", content=edited))
    else:
        getattr(store, verb)(fact_id, ACTION_CONTEXT)


def observable(store: Store) -> dict[str, Any]:
    """Return what readers see: the live facts without their versions, and the live links."""
    facts = store.list_facts(Listing(ALL, 1000, lifecycle="live"))
    return {
        fact.id: fact.model_dump(mode="json", exclude={"version"})
        | {"links": _links(store, fact.id, {item.id for item in facts})}
        for fact in facts
    }


def _links(store: Store, fact_id: str, live: set[str]) -> list[tuple[str, str, str]]:
    page = store.links(fact_id, ALL, types=(), before_id=None, limit=500)
    return sorted(
        (link.from_, link.to, link.type)
        for link in page.links
        if link.from_ in live and link.to in live
    )


def assert_no_false_invalidation(store: Store) -> None:
    """Every superseded fact has a cause: a link from what took its place, of its key or by hand."""
    facts = {fact.id: fact for fact in store.list_facts(Listing(ALL, 1000))}
    for fact in facts.values():
        if fact.lifecycle != "superseded":
            continue
        page = store.links(fact.id, ALL, types=("supersedes",), before_id=None, limit=500)
        causes = [facts[link.from_] for link in page.links if link.to == fact.id]
        assert causes, fact
        by_key = [cause for cause in causes if _same_key(cause, fact)]
        if str(fact.closed_reason).startswith("superseded by"):
            assert any(
                _since(cause) > _since(fact) and cause.review != "draft" for cause in by_key
            ), fact
            assert fact.review != "approved" or any(
                cause.source.actor != AGENT.name or cause.review == "approved" for cause in by_key
            )
    for scope in ("realm:demo", TEAM):
        _assert_one_live_per_key(facts, scope)


def _assert_one_live_per_key(facts: dict[str, Fact], scope: str) -> None:
    live = [f for f in facts.values() if f.lifecycle == "live" and f.scope == scope and f.subject]
    hashes = [(fact.content, fact.subject, fact.predicate) for fact in live]
    assert len(hashes) == len(set(hashes)), "two equal facts are live in one scope"


def _same_key(fact: Fact, other_fact: Fact) -> bool:
    mine, theirs = (
        (fact.scope, fact.subject, fact.predicate),
        (other_fact.scope, other_fact.subject),
    )
    return (
        fact.subject is not None and mine[:2] == theirs and fact.predicate == other_fact.predicate
    )


def _since(fact: Fact) -> datetime:
    return fact.valid_from or fact.recorded_at


@pytest.fixture(params=["fake", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(kind: str, folder: Path, time: Time) -> Store:
    return MemoryStore(time) if kind == "fake" else SqliteStore(folder / "knowledge.db", time)


@SETTINGS
@given(history=HISTORY, last=STEP)
def test_undo_gives_back_what_was_seen_before(
    kind: str, tmp_path_factory: pytest.TempPathFactory, history: list[Step], last: Step
) -> None:
    time = Time()
    store = make(kind, tmp_path_factory.mktemp("undo"), time)
    try:
        for step in history:
            take(store, step)
            time.pass_(minutes=1)
        initial_observable = observable(store)
        if last[0] == "undo":
            return
        for fact_id in take(store, last):
            if observable(store) != initial_observable:
                time.pass_(minutes=1)
                store.undo(fact_id, ACTION_CONTEXT)
        assert observable(store) == initial_observable
    finally:
        store.close()


@SETTINGS
@given(history=HISTORY)
def test_nothing_is_superseded_without_a_later_statement_of_its_key(
    kind: str, tmp_path_factory: pytest.TempPathFactory, history: list[Step]
) -> None:
    time = Time()
    store = make(kind, tmp_path_factory.mktemp("closed"), time)
    try:
        for step in history:
            take(store, step)
            time.pass_(minutes=1)
            assert_no_false_invalidation(store)
    finally:
        store.close()


@SETTINGS
@given(history=HISTORY, erased=st.lists(st.integers(0, 20), max_size=3))
def test_log_of_any_history_rebuilds_to_the_byte_and_verifies(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step], erased: list[int]
) -> None:
    time, path = Time(), tmp_path_factory.mktemp("log") / "knowledge.db"
    store = SqliteStore(path, time)
    for step in history:
        take(store, step)
        time.pass_(minutes=1)
    deleted_item = []
    for selector in erased:
        intervals = ids(store)
        if intervals:
            deleted_item += store.erase(intervals[selector % len(intervals)], ACTION_CONTEXT).facts
            take(store, ("tell", selector % 6, selector % 3))
    store.close()
    db = connection.open_writer(path)
    initial_fingerprint = projection_rebuild.fingerprint(db)
    db.close()
    assert offline_rebuild.rebuild(path).changed == ()
    assert offline_rebuild.verify(path).problems == ()
    db = connection.open_writer(path)
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    db.close()


@SETTINGS
@given(history=HISTORY)
def test_stores_agree_on_any_history(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step]
) -> None:
    stores: list[Store] = []
    for kind in ("fake", "sqlite"):
        time = Time()
        stores.append(make(kind, tmp_path_factory.mktemp("agree"), time))
        for step in history:
            take(stores[-1], step)
            time.pass_(minutes=1)
    report = [json.dumps(_anonymous(store), sort_keys=True) for store in stores]
    for store in stores:
        store.close()
    assert report[0] == report[1]


def _anonymous(store: Store) -> list[Any]:
    """Return every fact of every moment with ids by order, so that two stores compare."""
    facts = sorted(store.list_facts(Listing(ALL, 1000)), key=lambda fact: fact.id)
    names = {fact.id: f"#{n}" for n, fact in enumerate(facts)}
    result = []
    for fact in facts:
        history = store.history(fact.id, ALL)
        assert history is not None
        versions = [v.model_dump(mode="json") for v in history.versions]
        result += [versions, [entry.type for entry in history.entries]]
    text = json.dumps(result)
    for fact_id, name in names.items():
        text = text.replace(fact_id, name)
    return list(json.loads(text))


def test_erased_text_is_nowhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    remembered = store.remember(
        [
            new_fact(f"{term} is the word", scope=TEAM)
            for term in ("xylophone", "quagmire", "other")
        ],
        actor=PERSON,
    )
    store.confirm(remembered[0].fact_id, ACTION_CONTEXT, "run-1")
    store.promote(remembered[0].fact_id, ACTION_CONTEXT)
    store.remember([new_fact("quagmire is the word", confidence=0.9)], actor=PERSON)
    store.correct(remembered[1].fact_id, "quagmire was wrong", "something else", actor=PERSON)
    store.erase(remembered[0].fact_id, ACTION_CONTEXT)
    store.erase(remembered[1].fact_id, ACTION_CONTEXT)
    store.close()
    data = path.read_bytes()  # closed in good order: the log is folded in and gone
    for term in (b"xylophon", b"quagmir"):
        assert term not in data
    assert b"other is the word" in data
    assert offline_rebuild.verify(path).problems == ()
    assert offline_rebuild.rebuild(path).changed == ()
