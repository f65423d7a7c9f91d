"""What strangers do around a fact that everybody sees costs its other readers nothing.

Counted are the steps of SQLite's machine and the rows it gives out, which no clock disturbs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from knowledge_client.models import AliasIn, BlueprintName, Receipt
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.domain.aliases import Name
from knowledge_service.domain.recall_filters import Filters
from knowledge_service.ports import (
    ActionContext,
    AuditReader,
    FactUsage,
    Listing,
    NeighbourQuery,
    NewLink,
    NewReceipt,
    RunListing,
    Search,
)
from knowledge_service.search.snapshot import MOST_LINKED, RowRequest
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.repositories import base, recall_search
from knowledge_service.store.sqlite.store import SqliteStore
from tests.earlier_schemas import drop_outcome_totals
from tests.knowledge_builders import LEAD, OPERATOR, TEAM, new_fact, run_in

STRANGERS = 150
# The same words and names everywhere: what a reader finds by them may be everybody's.
MESSAGE = "The build needs Java 21"
SHOP = Name("shop", "java")
BLUEPRINT = BlueprintName(namespace="demo", name="review")


def receipt(number: int, observer: str, fact_ids: tuple[str, ...], run: str | None) -> NewReceipt:
    receipt = Receipt(
        id=f"receipt-{number}", principal="demo/x", scopes=(observer,), query_hash="0",
        known_at="2026-03-01T12:00:00Z", ranker="r", analyser="a", facts=fact_ids,
        scores=tuple(1.0 for _ in fact_ids), run=run,
    )  # fmt: skip
    return NewReceipt(receipt, observer)


class Town:
    """A fact of the platform, what one cell knows beside it, and any number of strangers."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        famous = new_fact(MESSAGE, scope="platform", aliases=[AliasIn(namespace="shop", value="a")])
        (remembered,) = store.remember([famous], actor=OPERATOR)
        self.famous = remembered.fact_id
        self.settle(LEAD, 0)

    def settle(self, home: str, number: int) -> None:
        """Do from one home everything that a principal may do with the famous fact."""
        store, alias = self.store, AliasIn(namespace="shop", value="java")
        own_new_fact = new_fact(f"{MESSAGE} {number}", scope=home, aliases=[alias])
        (result,) = store.remember([own_new_fact], actor=OPERATOR)
        everything = View("platform", (ScopeRange("platform", subtree=True),))
        for ends in ((result.fact_id, self.famous), (self.famous, result.fact_id)):
            for kind in ("related", "derived_from", "supersedes"):
                link = NewLink(*ends, kind)
                store.link(link, everything, actor=OPERATOR)
        uses = [FactUsage(self.famous, "consulted", 1), FactUsage(self.famous, "applied", 1)]
        store.count_usage(uses, observer=home, actor="x")
        namespace = home.split("/", maxsplit=1)[0].removeprefix("realm:")
        run = run_in(scope=home, namespace=namespace)
        store.put_run(f"run-{number}", run, actor=OPERATOR)
        displayed_receipt = receipt(number, home, (self.famous,), f"run-{number}")
        store.record_recall_later(displayed_receipt)
        ended = run.model_copy(update={"outcome": "Succeeded"})
        store.put_run(f"run-{number}", ended, actor=OPERATOR)

    def strangers(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            # Of the reader's own team, where it sees no other cell, and of other realms.
            neighbor, far = f"{TEAM}/cell:c{number}", f"realm:r{number}/cell:c"
            self.settle(neighbor if number % 2 else far, number)


CELL = View(LEAD)
GRANTED = View(LEAD, (ScopeRange("realm:demo/formation:other", subtree=True),))
READS: dict[str, Callable[[Town, View], object]] = {
    "recall": lambda town, view: town.store.search(Search(view, MESSAGE, 10)).hits,
    "recall in a named scope": lambda town, view: (
        town.store.search(Search(view, MESSAGE, 10, ("platform",))).hits
    ),
    "recall of what was known": lambda town, view: (
        town.store.search(Search(view, MESSAGE, 10, None)).hits
    ),
    "list of facts": lambda town, view: town.store.list_facts(Listing(view, 50)),
    "runs": lambda town, view: town.store.list_runs(RunListing(view, 50)),
    "runs of a Blueprint": lambda town, view: town.store.list_runs(
        RunListing(view, 50, namespace="demo", blueprint="review")
    ),
    "statistics of a Blueprint": lambda town, view: town.store.blueprint_stats((BLUEPRINT,), view),
    "statistics of its parameters": lambda town, view: town.store.parameter_stats(BLUEPRINT, view),
    "statistics of a scope": lambda town, view: town.store.scope_stats(("platform",), view),
    "a name": lambda town, view: town.store.named(SHOP, view),
    "links": lambda town, view: town.store.links(
        town.famous, view, types=(), before_id=None, limit=50
    ),
    "history": lambda town, view: town.store.history(town.famous, view),
    "neighbours": lambda town, view: town.store.neighbors(
        NeighbourQuery(town.famous, depth=3, limit=50, types=()), view
    ),
    "why": lambda town, view: town.store.why(town.famous, AuditReader(view, "demo/lead-0")),
    "impact": lambda town, view: town.store.impact(
        town.famous, AuditReader(view, "demo/lead-0"), limit=50
    ),
}


class Steps:
    """Counts what the statements of all readers do."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        self._readers = list(store._readers._free.queue)

    def __enter__(self) -> Steps:
        for reader in self._readers:
            reader.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.connection.trace_v2(0)

    def _note(self, record: dict[str, object]) -> None:
        status = record["stmt_status"]
        assert isinstance(status, dict)
        self.count += status["SQLITE_STMTSTATUS_VM_STEP"]


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    store = SqliteStore(tmp_path / "knowledge.db")
    try:
        yield Town(store)
    finally:
        store.close()


@pytest.mark.parametrize("view", [CELL, GRANTED], ids=["cell", "cell with a grant"])
def test_reads_take_as_many_steps_however_many_strangers_there_are(town: Town, view: View) -> None:
    def measure() -> tuple[dict[str, int], dict[str, object]]:
        steps, answers = {}, {}
        for name, read in READS.items():
            with Steps(town.store) as counted:
                answers[name] = read(town, view)
            steps[name] = counted.count
        return steps, answers

    # A search that comes to the end of an index is one step shorter, so there are some at first.
    town.strangers(1, 4)
    measure()  # statements are prepared by the first use of each reader
    among_few, answers = measure()
    assert all(among_few.values())
    town.strangers(5, STRANGERS)
    measure()
    among_many, result = measure()
    assert result == answers
    assert among_many == among_few


INITIAL_MESSAGE = """
DROP INDEX extraction_called;
ALTER TABLE extraction DROP COLUMN model; ALTER TABLE extraction DROP COLUMN retry_at;
ALTER TABLE extraction DROP COLUMN called_at; ALTER TABLE extraction DROP COLUMN calls;
ALTER TABLE extraction DROP COLUMN input_tokens; ALTER TABLE extraction DROP COLUMN output_tokens;
ALTER TABLE extraction DROP COLUMN cost_nano;
DROP TABLE trigram; DROP INDEX fact_entity;
ALTER TABLE principal DROP COLUMN address;
ALTER TABLE principal DROP COLUMN default_scope;
DROP INDEX event_scope; DROP INDEX receipt_observer;
DROP INDEX idempotency_named;
DROP INDEX scope_erased; ALTER TABLE scope DROP COLUMN erased_by;
DROP INDEX link_out; DROP INDEX link_in; DROP INDEX promotion_copy; DROP INDEX usage_seen;
DROP INDEX run_blueprint; DROP INDEX run_scope; DROP INDEX run_newest;
ALTER TABLE link DROP COLUMN from_scope; ALTER TABLE link DROP COLUMN to_scope;
ALTER TABLE promotion DROP COLUMN origin_scope;
CREATE INDEX link_out ON link(from_no, to_no, type, closed_at);
CREATE INDEX link_in ON link(to_no, from_no, type, closed_at);
CREATE INDEX promotion_copy ON promotion(copy_no);
CREATE INDEX run_blueprint ON run(namespace, blueprint, opened_at);
CREATE INDEX run_scope ON run(scope, opened_at);
ALTER TABLE served RENAME TO served_now;
CREATE TABLE served(
  fact_no INTEGER NOT NULL, at INTEGER NOT NULL, receipt TEXT NOT NULL, principal TEXT NOT NULL,
  observer_no INTEGER NOT NULL, run_id TEXT, PRIMARY KEY(fact_no, at, receipt))
  WITHOUT ROWID, STRICT;
INSERT INTO served SELECT fact_no, at, receipt, principal, observer_no, run_id FROM served_now;
DROP TABLE served_now;
ALTER TABLE fact_event RENAME TO fact_event_now;
CREATE TABLE fact_event(fact_no INTEGER NOT NULL, seq INTEGER NOT NULL, op INTEGER NOT NULL,
  undone INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(fact_no, seq)) WITHOUT ROWID, STRICT;
INSERT INTO fact_event SELECT fact_no, seq, op, undone FROM fact_event_now;
DROP TABLE fact_event_now;
CREATE INDEX fact_event_op ON fact_event(op);
DROP INDEX fact_root;
ALTER TABLE fact DROP COLUMN root;
DROP INDEX run_withheld; DROP TABLE fact_facet;
DELETE FROM migration WHERE number >= 11;
"""


def test_file_of_before_gives_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    store = SqliteStore(path)
    town = Town(store)
    town.strangers(1, 4)
    own_new_fact = new_fact("The kettle whistles", scope=LEAD)
    (remembered,) = store.remember([own_new_fact], actor=OPERATOR)
    store.promote(remembered.fact_id, ActionContext(OPERATOR, "proven"))
    views = (CELL, GRANTED, View("platform", (ScopeRange("platform", subtree=True),)))
    reads = [(read, view) for read in READS.values() for view in views]
    initial_items = [read(town, view) for read, view in reads]
    fact_provenance = store.why(remembered.fact_id, AuditReader(CELL, "demo/lead-0"))
    store.close()
    db = apsw.Connection(str(path))
    drop_outcome_totals(db)
    db.execute(INITIAL_MESSAGE)
    db.close()
    with contextlib.closing(SqliteStore(path)) as store:
        town.store = store
        assert [read(town, view) for read, view in reads] == initial_items
        assert fact_provenance is not None
        assert fact_provenance.promotions
        assert store.why(remembered.fact_id, AuditReader(CELL, "demo/lead-0")) == fact_provenance
    # The log says who opened its runs, which no log of before did.
    assert offline_rebuild.rebuild(path).changed == ("run",)


def many_scopes(town: Town, count: int) -> tuple[ScopeRange, ...]:
    """Make scopes that one reader sees; more than it names in each query."""
    reaches = tuple(ScopeRange(f"realm:g{number}", subtree=False) for number in range(count))
    facts = [new_fact("The kettle whistles", scope=reach.scope) for reach in reaches]
    town.store.remember(facts, actor=OPERATOR)
    return reaches


@pytest.mark.parametrize("name", ["history", "links"])
def test_reader_of_many_scopes_asks_about_one_fact_by_scope(town: Town, name: str) -> None:
    view = View(LEAD, many_scopes(town, base.MANY_SCOPES + 1))

    def measure() -> tuple[int, object]:
        with Steps(town.store) as counted:
            answer = READS[name](town, view)
        return counted.count, answer

    town.strangers(1, 4)
    measure()
    among_few = measure()
    town.strangers(5, STRANGERS)
    measure()
    assert measure() == among_few


def crowd(path: Path, first: int, strangers: int) -> None:
    """Have strangers use fact 1 as `Town.settle` does, by rows that need no log."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA synchronous=OFF")
    with db:
        for number in range(first, first + strangers):
            for sql in STRANGER:
                db.execute(sql, {"n": number})
    db.close()


STRANGER = (
    """INSERT INTO scope(scope_no, path, realm_no, created_at)
  VALUES(:n, 'realm:r' || :n || '/cell:c', :n, 1)""",
    """INSERT INTO fact(fact_no, id, scope_no, kind, content, tags, confidence, source, source_type,
  recorded_at, content_hash) VALUES(:n, 'f-' || :n, :n, 'fact', 'x', '[]', 0.5,
  '{"type":"user_input"}', 'user_input', 1, randomblob(32))""",
    """INSERT INTO usage(fact_no, observer_no, kind, count, last_at)
  VALUES(1, :n, 'succeeded', 1, 1), (1, :n, 'recalled', 1, 1)""",
    """INSERT INTO scope_usage(scope_no, observer_no, kind, count, last_at)
  SELECT scope_no, :n, 'succeeded', 1, 1 FROM fact WHERE fact_no = 1""",
    """INSERT INTO link(id, from_no, to_no, from_scope, to_scope, type, actor, recorded_at)
  SELECT 'l-in-' || :n || value, :n, 1, :n, scope_no, value, 'x', 1 FROM fact
  CROSS JOIN json_each('["related", "derived_from", "supersedes"]') WHERE fact_no = 1""",
    """INSERT INTO link(id, from_no, to_no, from_scope, to_scope, type, actor, recorded_at)
  SELECT 'l-out-' || :n, 1, :n, scope_no, :n, 'derived_from', 'x', 1 FROM fact WHERE fact_no = 1""",
    """INSERT INTO served(fact_no, observer_no, at, receipt, principal)
  VALUES(1, :n, 1, 'r-' || :n, 'x')""",
    """INSERT INTO promotion(id, origin_no, copy_no, origin_scope, rule, evidence, actor, at)
  VALUES('p-' || :n, :n, 1, :n, 'x', '[]', 'x', 1)""",
    "INSERT INTO alias(scope_no, namespace, value, fact_no) VALUES(:n, 'shop', 'java', :n)",
)


@pytest.mark.parametrize(
    "name", ["recall", "why", "impact", "neighbours", "a name", "statistics of a scope"]
)
def test_reader_of_many_scopes_waits_for_no_more_entries_than_it_sees_scopes(
    town: Town, tmp_path: Path, name: str
) -> None:
    view = View(LEAD, many_scopes(town, base.MANY_SCOPES + 1))

    def measure() -> tuple[int, object]:
        with Steps(town.store) as counted:
            answer = READS[name](town, view)
        return counted.count, answer

    path = tmp_path / "knowledge.db"
    crowd(path, 10_000, base.MANY_SCOPES)
    measure()
    among_as_many = measure()
    crowd(path, 20_000, 4 * base.MANY_SCOPES)
    measure()
    assert measure() == among_as_many


EVERYTHING = View("platform", (ScopeRange("platform", subtree=True),))


@pytest.mark.parametrize(
    "search",
    [
        Search(EVERYTHING, MESSAGE, 10),
        Search(EVERYTHING, MESSAGE, 10, ("platform", "realm:r10001/cell:c")),
        Search(EVERYTHING, MESSAGE, 10, filters=Filters(known_at=datetime(2100, 1, 1, tzinfo=UTC))),
    ],
    ids=["everything", "everything, in named scopes", "everything, as it was known"],
)
def test_fact_brings_a_reader_of_everything_so_many_linked_facts_and_no_more(
    town: Town, tmp_path: Path, search: Search
) -> None:
    def measure() -> tuple[int, object]:
        with Steps(town.store) as counted, town.store._readers.snapshot() as connection:
            snapshot = recall_search._snapshot(connection, search, None)
            counted.count = 0
            links = snapshot.rows(RowRequest(links_of=[1])).links
        return counted.count, links

    path = tmp_path / "knowledge.db"
    crowd(path, 10_000, 2 * MOST_LINKED)
    measure()
    steps, links = measure()
    assert steps
    crowd(path, 20_000, 4 * MOST_LINKED)
    measure()
    assert measure() == (steps, links)


def test_reader_of_everything_counts_outcomes_in_as_many_steps_however_many_used_a_fact(
    town: Town, tmp_path: Path
) -> None:
    def measure() -> tuple[int, float]:
        with Steps(town.store) as counted:
            hits = town.store.search(Search(EVERYTHING, MESSAGE, 1, ("platform",))).hits
        return counted.count, hits[0].parts["x_usefulness"]

    path = tmp_path / "knowledge.db"
    crowd(path, 10_000, STRANGERS)
    measure()
    among_some = measure()
    assert among_some[1] > 1
    crowd(path, 20_000, 4 * STRANGERS)
    measure()
    assert measure() == among_some


def test_history_follows_a_scope_that_is_adopted(tmp_path: Path) -> None:
    path, home = tmp_path / "knowledge.db", "realm:demo/formation:other"
    store = SqliteStore(path)
    town = Town(store)
    town.settle(home, 1)
    full_history = store.history(town.famous, GRANTED)
    store.delete_scope(home, actor=OPERATOR)
    assert store.history(town.famous, GRANTED) == store.history(town.famous, CELL) != full_history
    new = new_fact("The kettle whistles", scope=home)
    (remembered,) = store.remember([new], actor=OPERATOR)
    store.link(NewLink(remembered.fact_id, town.famous, "related"), GRANTED, actor=OPERATOR)
    store.adopt_scope(home, actor=OPERATOR)
    final_history = store.history(town.famous, GRANTED)
    assert full_history is not None
    assert final_history is not None
    assert [
        history_entry
        for history_entry in final_history.entries
        if remembered.fact_id not in history_entry.facts
    ] == list(full_history.entries)
    assert len(final_history.entries) == len(full_history.entries) + 1
    store.close()
    assert offline_rebuild.rebuild(path).changed == ()
