"""A run id is unique in its realm: what one realm calls its runs concerns no other realm."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from knowledge_client.models import Recalled, Receipt, Ref, Source
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.domain.run_reports import RunKey
from knowledge_service.errors import Conflict
from knowledge_service.ports import AuditReader, Listing, NewReceipt, RunListing, Store
from knowledge_service.store.sqlite import projection_rebuild
from knowledge_service.store.sqlite.db import connection
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.store.conftest import Time
from tests.fact_actions import known, told
from tests.knowledge_builders import (
    AGENT,
    ALL,
    LEAD,
    OPERATOR,
    OTHER,
    TEAM,
    episode,
    new_fact,
    run_in,
    run_key,
)

OWN_RUN, THEIRS = run_key("nightly"), run_key("nightly", "realm:other")
MEMBER = View(LEAD)


def open_both(store: Store) -> None:
    store.put_run("nightly", run_in(mission="m"), actor=OPERATOR)
    store.put_run("nightly", run_in(namespace="other", scope=OTHER, mission="m"), actor=OPERATOR)


def recalled(store: Store, fact_id: str, observer: str) -> None:
    receipt = Receipt(
        id=f"receipt-{observer}", query_hash="", principal="p", scopes=(observer,),
        known_at=datetime(2026, 1, 1, tzinfo=UTC), ranker="", analyser="", run="nightly",
        facts=(fact_id,), scores=(1.0,),
    )  # fmt: skip
    answer = Recalled(receipt=receipt.id, facts=(), scopes=(), known_at=receipt.known_at, ranker="")
    store.record_recall(NewReceipt(receipt, observer), answer, None)


def assert_rebuilt_alike(path: Path) -> None:
    db = connection.open_writer(path)
    initial_fingerprint = projection_rebuild.fingerprint(db)
    projection_rebuild.rebuild(db)
    assert projection_rebuild.fingerprint(db) == initial_fingerprint
    db.close()


class TestTwoRealms:
    def test_runs_of_one_id_live_side_by_side(self, store: Store) -> None:
        open_both(store)
        store.put_run(
            "nightly", run_in(namespace="other", scope=OTHER, outcome="Failed"), actor=OPERATOR
        )
        own_run, theirs = store.run(OWN_RUN, ALL), store.run(THEIRS, ALL)
        assert own_run is not None
        assert theirs is not None
        assert (own_run.namespace, own_run.outcome) == ("demo", None)
        assert (theirs.namespace, theirs.outcome) == ("other", "Failed")
        assert [run.namespace for run in store.runs_named("nightly", ALL)] == ["demo", "other"]
        assert [run.namespace for run in store.runs_named("nightly", MEMBER)] == ["demo"]
        assert len(store.list_runs(RunListing(ALL, 9))) == 2

    def test_page_goes_on_after_the_run_of_the_right_realm(self, store: Store) -> None:
        open_both(store)
        (newest, oldest) = store.list_runs(RunListing(ALL, 9))
        key = RunKey("realm:" + newest.namespace, "nightly")
        assert store.list_runs(RunListing(ALL, 9, before_run=key)) == (oldest,)

    def test_each_has_its_own_episodes(self, store: Store) -> None:
        open_both(store)
        store.add_episodes(OWN_RUN, [episode("a"), episode("b")], actor=AGENT)
        accepted = store.add_episodes(THEIRS, [episode("a")], actor=AGENT)
        assert (accepted.accepted, accepted.duplicates) == (1, 0)
        assert [item.content for item in store.episodes(OWN_RUN)] == ["a", "b"]
        assert [item.seq for item in store.episodes(THEIRS)] == [1]

    def test_each_has_its_own_extraction(self, store: Store) -> None:
        open_both(store)
        store.accept_extraction(OWN_RUN, 5, actor=OPERATOR)
        assert store.extraction(THEIRS) is None
        store.accept_extraction(THEIRS, 2, actor=OPERATOR)
        assert (store.extraction_limit(OWN_RUN), store.extraction_limit(THEIRS)) == (5, 2)
        store.finish_extraction(THEIRS, [], "little", actor=OPERATOR)
        assert [key for key, _ in store.open_extractions(9)] == [OWN_RUN]

    def test_outcome_credits_facts_of_its_own_receipts_only(self, store: Store) -> None:
        open_both(store)
        shared = told(store, scope="platform")
        recalled(store, shared, LEAD)
        recalled(store, shared, OTHER)
        store.put_run(
            "nightly", run_in(namespace="other", scope=OTHER, outcome="Succeeded"), actor=OPERATOR
        )
        own_impact = store.impact(shared, AuditReader(MEMBER, "p"), limit=9)
        impact = store.impact(shared, AuditReader(ALL, "p"), limit=9)
        assert own_impact is not None
        assert impact is not None
        assert "succeeded" not in own_impact.usage
        assert impact.usage["succeeded"].count == 1

    def test_open_run_of_another_realm_keeps_no_receipt(self, store: Store, time: Time) -> None:
        open_both(store)
        shared = told(store, scope="platform")
        recalled(store, shared, LEAD)
        store.put_run("nightly", run_in(outcome="Succeeded"), actor=OPERATOR)
        assert store.delete_old_receipts(time.pass_(days=400)) == 1

    def test_fact_names_the_run_of_its_own_realm(self, store: Store) -> None:
        open_both(store)
        fact_id = told(store, source=Source(refs=(Ref(type="run", id="nightly"),)))
        fact_provenance = store.why(
            fact_id, AuditReader(View(LEAD, (ScopeRange(OTHER, subtree=True),)), "p")
        )
        assert fact_provenance is not None
        assert fact_provenance.run is not None
        assert fact_provenance.run.namespace == "demo"
        assert known(store, fact_id).scope == TEAM


class TestAdoption:
    def test_realm_made_again_may_use_the_ids_of_the_one_before(self, store: Store) -> None:
        store.put_run("nightly", run_in(outcome="Failed"), actor=OPERATOR)
        store.delete_scope("realm:demo", actor=OPERATOR)
        assert store.run(OWN_RUN, ALL) is None
        store.put_run("nightly", run_in(outcome="Succeeded"), actor=OPERATOR)
        run = store.run(OWN_RUN, ALL)
        assert run is not None
        assert run.outcome == "Succeeded"

    def test_is_refused_while_both_realms_have_a_run_of_one_id(self, store: Store) -> None:
        store.put_run("nightly", run_in(), actor=OPERATOR)
        store.delete_scope("realm:demo", actor=OPERATOR)
        store.put_run("nightly", run_in(), actor=OPERATOR)
        with pytest.raises(Conflict, match=r"ids that the old one has \(nightly\): export it"):
            store.adopt_scope("realm:demo", actor=OPERATOR)

    def test_brings_runs_with_their_episodes_and_open_extractions_back(self, store: Store) -> None:
        store.put_run("nightly", run_in(outcome="Failed"), actor=OPERATOR)
        store.add_episodes(OWN_RUN, [episode("a")], actor=AGENT)
        store.accept_extraction(OWN_RUN, 5, actor=OPERATOR)
        store.delete_scope("realm:demo", actor=OPERATOR)
        assert store.open_extractions(9) == ()
        store.put_run("weekly", run_in(), actor=OPERATOR)
        store.add_episodes(run_key("weekly"), [episode("b")], actor=AGENT)
        store.adopt_scope("realm:demo", actor=OPERATOR)
        assert [item.content for item in store.episodes(OWN_RUN)] == ["a"]
        assert [item.content for item in store.episodes(run_key("weekly"))] == ["b"]
        assert [key for key, _ in store.open_extractions(9)] == [OWN_RUN]


def test_ledger_of_two_realms_is_rebuilt_to_the_byte(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "knowledge.db")
    open_both(store)
    store.add_episodes(OWN_RUN, [episode("a")], actor=AGENT)
    store.add_episodes(THEIRS, [episode("a")], actor=AGENT)
    store.accept_extraction(THEIRS, 3, actor=OPERATOR)
    store.finish_extraction(THEIRS, [new_fact("learnt", OTHER)], None, actor=OPERATOR)
    store.close()
    assert_rebuilt_alike(tmp_path / "knowledge.db")


def test_file_of_schema_8_keeps_runs_episodes_extractions_and_receipts(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    db = apsw.Connection(str(path))
    db.execute(Path(__file__).with_name("m008.sql").read_text())
    db.close()
    store = SqliteStore(path)
    weekly = run_key("weekly", "realm:other")
    run = store.run(OWN_RUN, ALL)
    assert run is not None
    assert (run.mission, run.outcome) == ("m", "Succeeded")
    for key in (OWN_RUN, weekly):
        assert [item.content for item in store.episodes(key)] == ["looked", "OOMKilled"]
    ((key, extraction),) = store.open_extractions(9)
    assert (key, extraction.attempts, store.extraction_limit(key)) == (OWN_RUN, 1, 4)
    (fact,) = store.list_facts(Listing(ALL, 9))
    # The receipt still belongs to its run: the run's facts were learnt in front of it.
    other_fact_id = told(
        store, "needs Java 25", source=Source(refs=(Ref(type="run", id="nightly"),))
    )
    fact_provenance = store.why(other_fact_id, AuditReader(ALL, "p"))
    assert fact_provenance is not None
    assert [receipt.facts for receipt in fact_provenance.receipts] == [(fact.id,)]
    store.close()
    assert_rebuilt_alike(path)
