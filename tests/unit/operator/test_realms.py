from kais_operator.decide.plan import ObjectRef
from kais_operator.observe import realm
from tests.fakes import world

REF = ObjectRef("Realm", "demo", "demo")
ACCOUNT = ObjectRef("ServiceAccount", "demo", "kais-user")


async def test_a_realm_settles_with_its_account_registered() -> None:
    fake = world.fake_world()
    await fake.settle(realm.RECONCILER, REF)
    account = fake.cluster.read(ACCOUNT)
    principal = fake.knowledge.principals["system:serviceaccount:demo:kais-user"]
    assert principal.subject.uid == account["metadata"]["uid"]
    assert [verb for verb, _ in fake.cluster.writes] == ["create"]


async def test_an_account_made_anew_is_registered_anew() -> None:
    fake = world.fake_world()
    await fake.settle(realm.RECONCILER, REF)
    fake.cluster.remove(ACCOUNT)
    await fake.settle(realm.RECONCILER, REF)
    principal = fake.knowledge.principals["system:serviceaccount:demo:kais-user"]
    assert principal.subject.uid == fake.cluster.read(ACCOUNT)["metadata"]["uid"]


async def test_a_terminating_namespace_is_left_alone() -> None:
    fake = world.fake_world()
    namespace = ObjectRef("Namespace", "", "demo")
    fake.cluster.set_status(namespace, {"phase": "Terminating"})
    assert await fake.step(realm.RECONCILER, REF) is None
    assert fake.cluster.writes == []


async def test_a_store_that_is_away_leaves_the_registration_for_the_next_pass() -> None:
    fake = world.fake_world()
    fake.knowledge.away = True
    await fake.step(realm.RECONCILER, REF)
    await fake.step(realm.RECONCILER, REF)
    fake.knowledge.away = False
    await fake.settle(realm.RECONCILER, REF)
    assert "system:serviceaccount:demo:kais-user" in fake.knowledge.principals
