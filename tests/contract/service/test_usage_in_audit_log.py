"""What callers say they did with facts stands in the audit and the stream."""

from __future__ import annotations

import contextlib
from pathlib import Path

from knowledge_client.errors import ErrorCode
from knowledge_client.models import AuditEntry, FactIn, FactUse, UsageIn
from knowledge_service.domain.access_control import ScopeRange, View
from knowledge_service.ports import AuditReader, FactUsage, Store, UsageContext
from knowledge_service.store.sqlite.maintenance import offline_rebuild
from knowledge_service.store.sqlite.store import SqliteStore
from tests.contract.service.callers import CALLERS, Connect, refused
from tests.knowledge_builders import AGENT, ALL, LEAD, OTHER, TEAM, new_fact, run_in


async def used(connect: Connect, *kinds: str) -> list[str]:
    """Have `lead` say that it used a fact of its team and one of its own."""
    keeper = connect("keeper")
    ids = [
        (await keeper.remember(FactIn(content="x", scope=item))).fact_id for item in (TEAM, LEAD)
    ]
    uses = [{"fact": fact_id, "kind": kind, "count": 2} for kind in kinds for fact_id in ids]
    body = UsageIn(uses=tuple(map(FactUse.model_validate, uses)))
    assert (await connect("lead").count_usage(body)).counted == 2 * len(uses)
    return ids


def audited(store: Store, scope: str) -> list[AuditEntry]:
    entries = store.audit((ScopeRange(scope, subtree=True),), None, limit=50).entries
    return [entry for entry in entries if entry.action.startswith("usage.")]


async def test_each_kind_of_use_is_an_act_of_who_said_it(connect: Connect, store: Store) -> None:
    ids = await used(connect, "consulted", "applied", "prevented")
    entries = audited(store, "realm:demo")
    assert {entry.action for entry in entries} == {
        "usage.consulted", "usage.applied", "usage.prevented",
    }  # fmt: skip
    for entry in entries:
        assert (entry.actor, entry.scope, entry.facts) == ("demo/lead-0", LEAD, tuple(ids))


async def test_audit_of_one_scope_names_no_fact_of_another(connect: Connect, store: Store) -> None:
    _, own_usage = await used(connect, "applied")
    (entry,) = audited(store, LEAD)
    assert entry.facts == (own_usage,)
    assert audited(store, "realm:other") == []


async def test_stream_tells_of_uses_to_who_sees_the_observer_and_the_facts(
    connect: Connect, store: Store
) -> None:
    ids = await used(connect, "applied")

    def told(view: View) -> list[tuple[str, ...]]:
        change_records = store.changes(0, view, limit=100).changes
        return [change.facts for change in change_records if change.type == "usage.applied"]

    assert told(CALLERS["keeper"].view) == told(CALLERS["lead"].view) == [tuple(ids)]
    assert told(CALLERS["peer"].view) == told(CALLERS["stranger"].view) == []


async def test_run_and_session_of_a_use_stand_in_audit_and_stream(
    connect: Connect, store: Store
) -> None:
    await connect("operator").put_run("r1", run_in())
    fact = (await connect("lead").remember(FactIn(content="x"))).fact_id
    uses = (FactUse(fact=fact, kind="consulted"), FactUse(fact=fact, kind="prevented"))
    await connect("lead").count_usage(UsageIn(uses=uses, run="r1", session="s-7"))
    await connect("lead").count_usage(UsageIn(uses=uses[:1]))
    entries = (await connect("keeper").audit(scope=LEAD)).entries
    described = [
        (entry.action, entry.run, entry.session)
        for entry in entries
        if entry.action.startswith("usage.")
    ]
    assert described == [
        ("usage.consulted", None, None),
        ("usage.prevented", "r1", "s-7"),
        ("usage.consulted", "r1", "s-7"),
    ]
    changes = store.changes(0, CALLERS["lead"].view, limit=100).changes
    assert [
        (change.type, change.run, change.session)
        for change in changes
        if change.type.startswith("usage.")
    ] == described[::-1]


async def test_use_in_a_run_of_others_is_refused_and_counts_nothing(
    connect: Connect, store: Store
) -> None:
    await connect("operator").put_run("theirs", run_in(namespace="other", scope=OTHER))
    fact = (await connect("lead").remember(FactIn(content="x"))).fact_id
    use = FactUse(fact=fact, kind="consulted")
    for run in ("theirs", "missing"):
        detail = await refused(
            connect("lead").count_usage(UsageIn(uses=(use,), run=run)), ErrorCode.NOT_FOUND
        )
        assert detail == f"run {run} does not exist or is not yours"
    assert audited(store, "realm:demo") == []


async def test_secret_in_a_session_is_masked(connect: Connect, store: Store) -> None:
    fact = (await connect("lead").remember(FactIn(content="x"))).fact_id
    token = "ghp_" + "a1B2" * 9
    uses = (FactUse(fact=fact, kind="consulted"),)
    await connect("lead").count_usage(UsageIn(uses=uses, session=f"issue {token}"))
    (entry,) = audited(store, LEAD)
    assert entry.session == "issue [masked]"


def test_rebuild_leaves_counts_and_acts_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "knowledge.db"
    with contextlib.closing(SqliteStore(path)) as store:
        (stored,) = store.remember([new_fact()], actor=AGENT)
        use = FactUsage(stored.fact_id, "applied", 2)
        context = UsageContext("r1", "s-7")
        store.count_usage([use], observer=LEAD, actor=AGENT.name, context=context)
        initial_entries = audited(store, "realm:demo")
    assert offline_rebuild.rebuild(path).changed == ()
    assert offline_rebuild.verify(path).problems == ()
    with contextlib.closing(SqliteStore(path)) as store:
        assert audited(store, "realm:demo") == initial_entries != []
        impact = store.impact(stored.fact_id, AuditReader(ALL, "ada"), limit=1)
        assert impact is not None
        assert impact.usage["applied"].count == 2
