"""A refused patch of a cost gate is a condition of the Mission, and the run continues after it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kais_operator import errors
from kais_operator.controllers.mission.observe import mission
from kais_operator.manager import workqueue
from kais_operator.manager.predicates import OwnWriteFilter
from kais_operator.manager.reconciler import Reconciler
from kais_operator.manager.workqueue import Backoff
from kais_operator.planning.plan import ObjectRef
from tests.fakes import teams
from tests.fakes.teams import MISSION, condition, status
from tests.fakes.world import FakeWorld, fake_world

MIND = {"provider": "openai", "model": "m", "systemPrompt": "help"}
REFUSALS = {
    "a right is missing": errors.Forbidden('pods "pod-a" is forbidden: no verb patch'),
    "an admission policy": errors.Invalid("ValidatingAdmissionPolicy 'no-gates' denied request"),
    "a webhook that is away": errors.ClusterUnavailable('failed calling webhook "guard.example"'),
}


@dataclass
class Gated:
    """A Mission whose pod waits behind its gate, and the reconciler of the Mission."""

    fake: FakeWorld
    pod: ObjectRef
    reconciler: Reconciler

    async def refuse(self, error: errors.ClusterError, times: int = 1) -> Backoff:
        for _ in range(times):
            self.fake.cluster.fail("patch", error, kind="Pod")
            with pytest.raises(Backoff) as caught:
                await self.reconciler(MISSION)
        return caught.value

    @property
    def is_open(self) -> bool:
        return not self.fake.cluster.read(self.pod)["spec"].get("schedulingGates")


@pytest.fixture
async def gated() -> Gated:
    cells = [{"name": "lead", "spec": {"mode": "Task", "mind": MIND}}]
    work = teams.work(budget={"maxCost": 0.5}, completion={"timeout": "10m"})
    fake = fake_world(teams.team(cells=cells), work)
    await teams.settle_team(fake)
    await teams.settle(fake)
    pod = teams.gated_pod(fake, "a")
    controllers = {"Mission": mission.CONTROLLER}
    reconciler = Reconciler(fake.world, controllers, OwnWriteFilter(), requeue=lambda _, __: None)
    return Gated(fake, pod, reconciler)


@pytest.mark.parametrize("cause", REFUSALS)
async def test_condition_says_what_failed_on_which_pod_and_what_to_do(
    gated: Gated, cause: str
) -> None:
    await gated.refuse(REFUSALS[cause], 2)
    for type_ in ("Started", "Succeeded"):
        state, reason, message = condition(gated.fake, type_)
        assert (state, reason) == ("False", "ApplyFailed")
        assert message == (
            "Pod/demo/pod-a waits, because its scheduling gate kais.io/cost-limit could not be "
            f"removed: {REFUSALS[cause]}; allow the operator to patch pods, or correct the "
            "admission webhook or policy that refuses it; the operator tries again"
        )


@pytest.mark.parametrize("cause", REFUSALS)
async def test_run_continues_when_the_refusal_ends(gated: Gated, cause: str) -> None:
    await gated.refuse(REFUSALS[cause], 3)
    await gated.reconciler(MISSION)
    assert gated.is_open
    assert condition(gated.fake, "Started")[1] == "WaitingForPods"
    assert condition(gated.fake, "Succeeded")[0] == "Unknown"


@pytest.mark.parametrize("cause", REFUSALS)
async def test_next_try_is_within_half_a_minute(gated: Gated, cause: str) -> None:
    backoff = await gated.refuse(REFUSALS[cause], 10)
    assert backoff.within_s is not None
    assert backoff.within_s <= 30


async def test_one_answer_that_says_to_try_later_is_no_condition(gated: Gated) -> None:
    await gated.refuse(errors.ClusterUnavailable("too many requests"))
    assert condition(gated.fake, "Started")[1] == "WaitingForPods"


async def test_failures_with_a_success_between_them_are_no_condition(gated: Gated) -> None:
    """Each is tried again after at most 0.2 s, so nobody has to do anything."""
    busy = errors.ClusterUnavailable("too many requests")
    await gated.refuse(busy)
    await gated.reconciler(MISSION)
    assert gated.is_open
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    gated.fake.cluster.set_status(gated.pod, {"phase": "Failed", "conditions": [disrupted]})
    gated.pod = teams.gated_pod(gated.fake, "b")
    await gated.refuse(busy)
    assert condition(gated.fake, "Started")[1] == "WaitingForPods"
    assert [event for event in gated.fake.cluster.events if event["type"] == "Warning"] == []
    assert workqueue.backoff_s(1, cap_s=workqueue.BACKOFF_CAP_S, jitter=1.0) == 0.2
    await gated.refuse(busy)
    assert condition(gated.fake, "Started")[1] == "ApplyFailed"


async def test_run_that_ends_behind_its_gate_says_why(gated: Gated) -> None:
    await gated.refuse(REFUSALS["an admission policy"], 2)
    gated.fake.clock.advance(11 * 60)
    await gated.reconciler(MISSION)
    assert status(gated.fake)["outcome"] == "InfrastructureFailed"
    message = condition(gated.fake, "Succeeded")[2]
    assert "attempt 1 did not start within the 10m for all attempts: Pod/demo/pod-a" in message
    assert "ValidatingAdmissionPolicy 'no-gates' denied request" in message
