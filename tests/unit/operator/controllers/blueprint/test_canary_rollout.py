"""A new revision of a Blueprint on trial: who gets it, what its runs decide, what people decide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kais import canary, labels, names
from kais.resources.blueprint import BlueprintKnowledge, KnowledgePolicy
from kais.resources.blueprint_instance import BlueprintInstance
from kais_operator import errors as operator_errors
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_instance.decide import child_manifests
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client import errors, models
from tests.fakes import blueprints, uses
from tests.fakes.blueprint_builder import condition, status
from tests.fakes.uses import TEAM
from tests.fakes.world import FakeWorld

ROLLOUT = {"canaryPercent": 50, "minRuns": 10, "maxRuns": 40}
NEWER = {"objective": "explain {{ topic }} well", "entrypoint": {"cell": "worker"}}
NEWEST = {"objective": "explain {{ topic }} better", "entrypoint": {"cell": "worker"}}


async def on_trial(*bodies: Body, **spec: Any) -> FakeWorld:
    """A Blueprint whose revision 2 is the canary over revision 1."""
    head = blueprints.blueprint(rollout=ROLLOUT, **spec)
    fake = await uses.world(*bodies, head=head)
    await uses.edit_head(fake, mission=NEWER)
    return fake


def served(fake: FakeWorld) -> str:
    return uses.annotations_of(fake, TEAM)[labels.SERVED_REVISION]


def rolled_out(fake: FakeWorld) -> tuple[str, str]:
    found = condition(fake, "RolledOut", TEAM)
    return found["reason"], found["message"]


def events(fake: FakeWorld) -> list[str]:
    return [e["reason"] for e in fake.cluster.events if e["reason"].startswith("Canary")]


async def record(fake: FakeWorld, revision: int, *outcomes: str, lot: int | None = 2) -> None:
    """Record ended runs, as the operator reports them."""
    runs = fake.knowledge.realms["demo"].runs
    for outcome in outcomes:
        run = models.RunIn(
            namespace="demo",
            scope="realm:demo/formation:use",
            blueprint="team",
            revision=revision,
            outcome=outcome,
            counters={} if lot is None else {"canary": lot},
        )
        await fake.knowledge.put_run(f"run-{len(runs)}", run)


async def test_a_new_revision_is_a_canary_and_the_old_one_keeps_serving() -> None:
    fake = await on_trial()
    assert served(fake) == "1"
    assert (status(fake)["latestRevision"], status(fake)["servedRevision"]) == (2, 1)
    assert condition(fake, "Ready", TEAM)["message"].startswith("revision 1 serves")
    assert rolled_out(fake) == (
        "CanaryRunning",
        (
            "revision 2 gets 50 % of new instances, revision 1 the others;"
            " revision 2: 0 of 0 succeeded, revision 1: 0 of 0 succeeded;"
            " next look at 10 runs of the canary"
        ),
    )
    assert events(fake) == ["CanaryBegun"]


def test_the_lots_of_canary_and_holdout_are_independent() -> None:
    policy = BlueprintKnowledge(policy=KnowledgePolicy.HOLDOUT, holdout_percent=50)
    instance = BlueprintInstance.from_dict(blueprints.instance())

    def lots(uid: str) -> tuple[bool, str]:
        arm = child_manifests.arm_of(instance, policy, {}, run_id=names.run_id(uid))
        return canary.is_drawn(uid, revision=2, percent=50), arm

    counts = Counter(lots(f"uid-{number}") for number in range(2000))
    assert len(counts) == 4
    assert all(430 < count < 570 for count in counts.values()), counts


async def test_without_rollout_a_new_revision_serves_at_once() -> None:
    fake = await uses.world(head=blueprints.blueprint())
    await uses.edit_head(fake, mission=NEWER)
    assert served(fake) == "2"
    assert labels.CANARY not in uses.annotations_of(fake, TEAM)


async def test_the_first_revision_is_no_canary() -> None:
    fake = await uses.world(head=blueprints.blueprint(rollout=ROLLOUT))
    assert served(fake) == "1"
    assert labels.CANARY not in uses.annotations_of(fake, TEAM)


async def test_a_canary_that_succeeds_is_promoted() -> None:
    fake = await on_trial()
    await record(fake, 1, *["Succeeded"] * 8, *["Failed"] * 12)
    await record(fake, 2, *["Succeeded"] * 9)
    await uses.settle_head(fake)
    assert served(fake) == "1", "nothing is decided on fewer than minRuns runs"
    await record(fake, 2, "Succeeded")
    await uses.settle_head(fake)
    assert served(fake) == "2"
    assert rolled_out(fake) == (
        "Promoted",
        "revision 2 was promoted: revision 2: 10 of 10 succeeded, revision 1: 8 of 20 succeeded",
    )
    assert events(fake) == ["CanaryBegun", "CanaryPromoted"]


async def test_a_canary_that_fails_is_stopped_and_stays_stopped() -> None:
    fake = await on_trial()
    await record(fake, 1, *["Succeeded"] * 20)
    await record(fake, 2, *["Failed"] * 10)
    await uses.settle_head(fake)
    assert served(fake) == "1"
    reason, message = rolled_out(fake)
    assert reason == "Regressed"
    assert message == (
        "the canary, revision 2, was stopped because it succeeds less often: revision 2: 0 of 10"
        " succeeded, revision 1: 20 of 20 succeeded; revision 1 serves. Promote it by hand, or"
        " apply a newer revision"
    )
    await record(fake, 2, *["Succeeded"] * 30)
    await uses.settle_head(fake)
    assert (served(fake), rolled_out(fake)) == ("1", (reason, message))
    assert events(fake) == ["CanaryBegun", "CanaryRegressed"]


async def test_a_canary_that_runs_do_not_decide_stops_at_max_runs() -> None:
    fake = await on_trial()
    await record(fake, 1, *["Succeeded"] * 20, *["Failed"] * 20)
    await record(fake, 2, *["Succeeded"] * 20, *["Failed"] * 20)
    await uses.settle_head(fake)
    assert (served(fake), rolled_out(fake)[0]) == ("1", "Undecided")


@pytest.mark.parametrize("lot", [None, 7])
async def test_runs_that_drew_no_lot_for_this_canary_do_not_count(lot: int | None) -> None:
    fake = await on_trial()
    await record(fake, 1, *["Succeeded"] * 20, lot=lot)
    await record(fake, 2, *["Failed"] * 40, lot=lot)
    await uses.settle_head(fake)
    assert rolled_out(fake)[0] == "CanaryRunning"


async def test_excluded_runs_do_not_count() -> None:
    fake = await on_trial()
    await record(fake, 1, *["Succeeded"] * 20)
    await record(fake, 2, *["Cancelled"] * 20, *["InfrastructureFailed"] * 20)
    await uses.settle_head(fake)
    assert rolled_out(fake)[0] == "CanaryRunning"


async def test_without_the_knowledge_service_nothing_is_decided() -> None:
    fake = await on_trial()
    await record(fake, 1, *["Succeeded"] * 20)
    await record(fake, 2, *["Failed"] * 10)
    fake.knowledge.refusals["blueprint_stats"] = errors.KnowledgeUnavailable("down")
    await uses.settle_head(fake)
    assert rolled_out(fake)[0] == "CanaryRunning"
    assert "its runs are not counted yet" in rolled_out(fake)[1]
    del fake.knowledge.refusals["blueprint_stats"]
    await uses.settle_head(fake)
    assert rolled_out(fake)[0] == "Regressed"


async def test_a_canary_outlives_a_lost_status() -> None:
    fake = await on_trial()
    before = uses.annotations_of(fake, TEAM)
    fake.clock.advance(86_400)
    fake.cluster.set_status(TEAM, {})
    await uses.settle_head(fake)
    assert uses.annotations_of(fake, TEAM) == before


def replace_head(fake: FakeWorld, **spec: Any) -> None:
    """Do what `kubectl replace` does: remove all annotations, and keep the status."""
    annotations = dict.fromkeys(uses.annotations_of(fake, TEAM))
    fake.cluster.edit(TEAM, {"metadata": {"annotations": annotations}, "spec": spec})


def canaries_of_revisions(fake: FakeWorld) -> dict[int, canary.Canary | None]:
    bodies = [fake.cluster.read(ref) for ref in fake.cluster.refs("BlueprintRevision")]
    return {
        body["spec"]["revision"]: canary.parse(body["metadata"].get("annotations") or {})
        for body in bodies
    }


@pytest.mark.parametrize("request_", [None, "stop 2", "promote 2"])
async def test_a_canary_outlives_kubectl_replace(request_: str | None) -> None:
    fake = await on_trial()
    if request_ is not None:
        uses.annotate(fake, TEAM, canary_request=request_)
    fake.clock.advance(3600)
    await uses.settle_head(fake)
    before, reported = uses.annotations_of(fake, TEAM), events(fake)
    replace_head(fake)
    fake.clock.advance(3600)
    await uses.settle_head(fake)
    assert uses.annotations_of(fake, TEAM) == before
    assert events(fake) == reported


async def test_a_new_revision_is_a_canary_although_it_came_with_kubectl_replace() -> None:
    fake = await uses.world(head=blueprints.blueprint(rollout=ROLLOUT))
    replace_head(fake, mission=NEWER)
    await uses.settle_head(fake)
    assert (served(fake), rolled_out(fake)[0]) == ("1", "CanaryRunning")
    replace_head(fake, mission=NEWEST)
    await uses.settle_head(fake)
    current = canary.parse(uses.annotations_of(fake, TEAM))
    assert current is not None
    assert (current.revision, current.over, served(fake)) == (3, 1, "1")


async def test_only_the_revision_that_is_tried_has_the_canary() -> None:
    fake = await on_trial()
    current = canary.parse(uses.annotations_of(fake, TEAM))
    assert canaries_of_revisions(fake) == {1: None, 2: current}
    await uses.edit_head(fake, mission=NEWEST)
    current = canary.parse(uses.annotations_of(fake, TEAM))
    assert canaries_of_revisions(fake) == {1: None, 2: None, 3: current}
    await uses.edit_head(fake, rollout=None)
    assert canaries_of_revisions(fake) == {1: None, 2: None, 3: None}
    assert served(fake) == "3"


async def test_a_revision_that_loses_the_canary_may_be_marked_for_deletion_at_once() -> None:
    """Two patches of one version of the revision would conflict, and lose the Event."""
    fake = await on_trial(revisionHistoryLimit=1)
    await uses.edit_head(fake, mission=NEWEST)
    current = canary.parse(uses.annotations_of(fake, TEAM))
    assert events(fake) == ["CanaryBegun", "CanaryBegun"]
    assert canaries_of_revisions(fake) == {1: None, 2: None, 3: current}


async def test_a_canary_that_ends_is_told_although_its_revision_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = await on_trial()
    patch = fake.cluster.patch_metadata

    async def refuse_once(ref: ObjectRef, *args: Any, **options: Any) -> Body:
        if ref.kind == "BlueprintRevision":
            monkeypatch.undo()
            raise operator_errors.Conflict(f"{ref} changed")
        return await patch(ref, *args, **options)

    monkeypatch.setattr(fake.cluster, "patch_metadata", refuse_once)
    uses.annotate(fake, TEAM, canary_request="stop 2")
    with pytest.raises(operator_errors.Conflict):
        await uses.settle_head(fake)
    await uses.settle_head(fake)
    current = canary.parse(uses.annotations_of(fake, TEAM))
    assert events(fake) == ["CanaryBegun", "CanaryStopped"]
    assert canaries_of_revisions(fake) == {1: None, 2: current}


async def test_a_blueprint_that_went_back_serves_the_old_revision_also_after_replace() -> None:
    """An old verdict must not come back with the revision that it was about."""
    fake = await on_trial()
    uses.annotate(fake, TEAM, canary_request="stop 2")
    await uses.settle_head(fake)
    await uses.edit_head(fake, mission=NEWEST)
    uses.annotate(fake, TEAM, canary_request="promote 3")
    await uses.settle_head(fake)
    await uses.edit_head(fake, mission=NEWER)
    assert served(fake) == "2"
    replace_head(fake)
    await uses.settle_head(fake)
    assert served(fake) == "2"


@pytest.mark.parametrize(("action", "number"), [("promote", "2"), ("stop", "1")])
async def test_a_person_promotes_and_stops(action: str, number: str) -> None:
    fake = await on_trial()
    uses.annotate(fake, TEAM, canary_request=f"{action} 2")
    await uses.settle_head(fake)
    assert served(fake) == number
    assert " by hand" in rolled_out(fake)[1]
    assert labels.CANARY_REQUEST not in uses.annotations_of(fake, TEAM)


async def test_a_newer_revision_replaces_the_canary() -> None:
    fake = await on_trial()
    await uses.edit_head(fake, mission=NEWEST)
    current = canary.parse(uses.annotations_of(fake, TEAM))
    assert current is not None
    assert (current.revision, current.over, served(fake)) == (3, 1, "1")


async def test_going_back_ends_the_canary() -> None:
    fake = await on_trial()
    await uses.edit_head(fake, mission=blueprints.blueprint()["spec"]["mission"])
    assert served(fake) == "1"
    assert labels.CANARY not in uses.annotations_of(fake, TEAM)


async def test_a_canary_that_does_not_compile_never_begins() -> None:
    fake = await uses.world(head=blueprints.blueprint(rollout=ROLLOUT))
    await uses.edit_head(fake, mission={**NEWER, "objective": "explain {{ nothing }}"})
    assert labels.CANARY not in uses.annotations_of(fake, TEAM)
    assert condition(fake, "Ready", TEAM)["reason"] == "LastGoodServed"


async def use(fake: FakeWorld, name: str) -> Body:
    ref = ObjectRef("BlueprintInstance", "demo", name)
    await fake.settle(blueprint_instance.CONTROLLER, ref)
    return dict(fake.cluster.read(ref)["metadata"])


async def test_uses_draw_their_revision_and_keep_it() -> None:
    bodies = [blueprints.instance(f"use-{number}") for number in range(20)]
    fake = await on_trial(*bodies)
    drawn = {}
    for body in bodies:
        metadata = await use(fake, body["metadata"]["name"])
        is_drawn = canary.is_drawn(metadata["uid"], revision=2, percent=50)
        drawn[metadata["name"]] = "2" if is_drawn else "1"
        assert metadata["labels"][labels.REVISION] == drawn[metadata["name"]]
        assert metadata["annotations"][labels.CANARY_LOT] == "2"
        mission = fake.cluster.read(ObjectRef("Mission", "demo", metadata["name"]))
        assert mission["metadata"]["annotations"][labels.CANARY_LOT] == "2"
    assert set(drawn.values()) == {"1", "2"}
    uses.annotate(fake, TEAM, canary_request="stop 2")
    await uses.settle_head(fake)
    for name, number in drawn.items():
        assert (await use(fake, name))["labels"][labels.REVISION] == number


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        pytest.param({"blueprintRef": {"name": "team", "revision": 2}}, "2", id="named new"),
        pytest.param({"blueprintRef": {"name": "team", "revision": 1}}, "1", id="named old"),
        pytest.param({"updatePolicy": "Automatic"}, "1", id="follows"),
    ],
)
async def test_uses_that_name_a_revision_or_follow_draw_no_lot(spec: Body, number: str) -> None:
    for name in ("use-a", "use-b", "use-c", "use-d"):
        fake = await on_trial(blueprints.instance(name, **spec))
        metadata = await use(fake, name)
        assert metadata["labels"][labels.REVISION] == number
        assert labels.CANARY_LOT not in metadata["annotations"]
