from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.namespace_account import observe as realm
from kais_operator.knowledge.sync_loop import KnowledgeSync
from kais_operator.planning.plan import ObjectRef
from knowledge_client import models
from tests.fakes import teams, world
from tests.fakes.world import FakeWorld

REF = ObjectRef("Realm", "demo", "demo")
ACCOUNT = ObjectRef("ServiceAccount", "demo", "kais-user")


async def test_a_realm_settles_with_its_account_registered() -> None:
    fake = world.fake_world()
    await fake.settle(realm.CONTROLLER, REF)
    account = fake.cluster.read(ACCOUNT)
    principal = fake.knowledge.principals["system:serviceaccount:demo:kais-user"]
    assert principal.subject.uid == account["metadata"]["uid"]
    assert [verb for verb, _ in fake.cluster.writes] == ["create"]


async def test_an_account_made_anew_is_registered_anew() -> None:
    fake = world.fake_world()
    await fake.settle(realm.CONTROLLER, REF)
    fake.cluster.remove(ACCOUNT)
    await fake.settle(realm.CONTROLLER, REF)
    principal = fake.knowledge.principals["system:serviceaccount:demo:kais-user"]
    assert principal.subject.uid == fake.cluster.read(ACCOUNT)["metadata"]["uid"]


async def test_a_terminating_namespace_is_left_alone() -> None:
    fake = world.fake_world()
    namespace = ObjectRef("Namespace", "", "demo")
    fake.cluster.set_status(namespace, {"phase": "Terminating"})
    assert await fake.step(realm.CONTROLLER, REF) is None
    assert fake.cluster.writes == []


async def test_a_store_that_is_away_leaves_the_registration_for_the_next_pass() -> None:
    fake = world.fake_world()
    fake.knowledge.away = True
    await fake.step(realm.CONTROLLER, REF)
    await fake.step(realm.CONTROLLER, REF)
    fake.knowledge.away = False
    await fake.settle(realm.CONTROLLER, REF)
    assert "system:serviceaccount:demo:kais-user" in fake.knowledge.principals


SCOPE = ObjectRef("KnowledgeScope", "demo", "memory")
PATH = "realm:demo/formation:team"


async def declared(fake: FakeWorld) -> None:
    """Have a KnowledgeScope told to the store and the realm looked at."""
    await fake.settle(knowledge_scope.CONTROLLER, SCOPE)
    await fake.settle(realm.CONTROLLER, REF)


async def test_settings_go_with_the_object_that_declared_them_and_the_facts_stay() -> None:
    fake = world.fake_world(teams.scope(readOnly=True))
    await declared(fake)
    assert fake.knowledge.scopes[PATH].read_only
    fake.cluster.remove(SCOPE)
    await fake.settle(realm.CONTROLLER, REF)
    assert fake.knowledge.scopes[PATH] == models.ScopeConfig()
    assert fake.knowledge.deleted_scopes == []
    calls = len(fake.knowledge.calls)
    await fake.step(realm.CONTROLLER, REF)
    assert len(fake.knowledge.calls) == calls


async def test_settings_of_an_object_deleted_while_the_operator_was_down_go_too() -> None:
    fake = world.fake_world(teams.scope(readOnly=True))
    await declared(fake)
    fake.cluster.remove(SCOPE)
    restarted = world.restarted(fake)
    await looked(restarted)
    await restarted.settle(realm.CONTROLLER, REF)
    assert fake.knowledge.scopes[PATH] == models.ScopeConfig()


async def looked(fake: FakeWorld) -> None:
    """Let the operator meet the store, as it does when it starts."""

    async def nothing(*_: object) -> None:
        return None

    watch = KnowledgeSync(
        fake.world.knowledge,
        fake.sync_state,
        fake.clock,
        on_stats_change=nothing,
        repeat_registrations=nothing,
        on_unavailable=nothing,
    )
    await watch.sync_once()


async def test_settings_that_are_declared_or_of_another_realm_stay() -> None:
    fake = world.fake_world(teams.scope(readOnly=True))
    fake.knowledge.scopes["realm:other"] = models.ScopeConfig(read_only=True)
    await looked(fake)
    await declared(fake)
    assert fake.knowledge.scopes[PATH].read_only
    assert fake.knowledge.scopes["realm:other"].read_only


async def test_a_scope_that_is_deleted_with_its_knowledge_is_not_declared_anew() -> None:
    fake = world.fake_world(teams.scope(readOnly=True, deletionPolicy="Delete"))
    await declared(fake)
    fake.cluster.remove(SCOPE)
    await fake.settle(knowledge_scope.CONTROLLER, SCOPE)
    await fake.settle(realm.CONTROLLER, REF)
    assert fake.knowledge.deleted_scopes == [PATH]
    assert PATH not in fake.knowledge.scopes


async def test_nothing_is_taken_back_while_one_scope_cannot_be_read() -> None:
    fake = world.fake_world(teams.scope(readOnly=True))
    await declared(fake)
    fake.cluster.edit(SCOPE, {"spec": {"level": "galaxy"}})
    await fake.settle(realm.CONTROLLER, REF)
    assert fake.knowledge.scopes[PATH].read_only


async def test_the_platforms_settings_are_taken_back_in_the_operators_namespace() -> None:
    ref = ObjectRef("Realm", "", "kais-system")
    fake = world.fake_world()
    fake.knowledge.scopes["platform"] = models.ScopeConfig(read_only=True)
    await looked(fake)
    await fake.settle(realm.CONTROLLER, REF)
    assert fake.knowledge.scopes["platform"].read_only
    await fake.settle(realm.CONTROLLER, ref)
    assert fake.knowledge.scopes["platform"] == models.ScopeConfig()
