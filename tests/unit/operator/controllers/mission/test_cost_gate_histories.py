"""Random histories of gated pods: whatever is evicted, lost or killed, no limit is exceeded.

The Job controller, the kubelet and the users act in any order, and people delete Jobs. An operator
observes, and writes at a later step, or is killed between two writes. Its clock jumps.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from kais import agent_results, labels
from kais.agent_results import AgentFailure, AgentResult, AgentUsage, FailureClass
from kais_operator import errors
from kais_operator.apply import executor
from kais_operator.controllers.mission.observe import mission as missions
from kais_operator.planning.plan import Body, ObjectRef, Plan
from tests.fakes import teams
from tests.fakes.clock import FakeClock
from tests.fakes.teams import CELL, FORMATION
from tests.fakes.world import FakeWorld, fake_world, restarted

MIND = {"provider": "openai", "model": "scripted-1", "systemPrompt": "Work."}
SHARED = Decimal("1.5")
OWN = {"a": Decimal("0.75"), "c": Decimal("0.5")}
REFS = tuple(ObjectRef("Mission", "demo", name) for name in ("a", "b", "c"))
GATES = [{"name": labels.COST_LIMIT_GATE}]
DISRUPTED = {"type": "DisruptionTarget", "status": "True"}
REFUSALS = (errors.ClusterUnavailable("webhook"), errors.Forbidden("pods"), errors.Conflict("pod"))
ROUNDS = 40
USER: dict[str, Body] = {
    "delete": {},
    "abort": {labels.ABORT: "true"},
    "suspend": {labels.RECONCILE: labels.RECONCILE_SUSPENDED},
    "resume": {labels.RECONCILE: None},
}
"""What users do: the annotations that they set."""
VERBS = (
    ("work",) * 10 + ("pass",) * 8 + ("create",) * 3 + ("start",) * 3 + ("observe", "write") * 3
    + ("evict",) * 4 + ("vanish",) * 3 + ("remove",) * 2 + ("refuse",) * 2
    + ("finish", "fail", "fail", "kill", "abort", "delete", "suspend", "resume")
    + ("lose the job",) * 3 + ("wait", "jump")
)  # fmt: skip
STEP = st.tuples(st.sampled_from(VERBS), st.integers(0, 2), st.integers(0, 4))
HISTORY = st.lists(STEP, min_size=30, max_size=70)
OLD_JOB_IS_DELETED = [
    *[("work", 0, 1)] * 3,
    *[("wait", 0, 3)] * 2,
    ("lose the job", 0, 4),
    *[("pass", 0, 0)] * 2,
]
"""A person deletes the Job of a run that is older than its start deadline; its pod terminates."""
REPORT_FOLLOWS_THE_JOB = [
    *[("work", 0, 1)] * 3,
    ("lose the job", 0, 3),
    ("pass", 0, 0),
    ("evict", 0, 0),
    ("pass", 0, 0),
    ("remove", 0, 0),
    *[("work", 0, 1)] * 3,
]
"""The pod of a deleted Job reports before it is gone."""
JOB_GOES_WITH_ITS_PODS = [
    *[("work", 0, 1)] * 3,
    ("lose the job", 0, 4),
    ("pass", 0, 0),
    ("evict", 0, 0),
    ("pass", 0, 0),
    ("remove", 0, 0),
    *[("work", 0, 1)] * 3,
]
"""A person deletes a Job in the foreground: it goes when its pods are gone."""
JUMPS_S = (0, 90, -90, 5000, -5000)
"""By how much the clock of the operator is ahead of that of the API server."""
TIMEOUT = timedelta(hours=3)
SETTINGS = settings(
    max_examples=15,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)


@dataclass
class JumpingClock:
    """The operator's clock, which may be ahead of the clock of the API server, or behind."""

    clock: FakeClock
    ahead_s: float = 0

    def now(self) -> datetime:
        return self.clock.now() + timedelta(seconds=self.ahead_s)

    def monotonic(self) -> float:
        return self.clock.monotonic()


@dataclass
class PodFate:
    """What is true of a pod, whatever the operator knows.

    Attributes:
        ref: the pod.
        run_id: its run.
        job_uid: its Job.
        granted: what it may cost; None while its gate is closed.
        spent: what it has cost.
        has_started: whether its container read its limit.
        has_ended: whether it ended, with a report if it had started.
        is_lost: whether it vanished before its end was recorded.
    """

    ref: ObjectRef
    run_id: str
    job_uid: str
    granted: Decimal | None = None
    spent: Decimal = Decimal(0)
    has_started: bool = False
    has_ended: bool = False
    is_lost: bool = False

    @property
    def exposure(self) -> Decimal:
        """What it has cost as far as that is known, or may cost."""
        return self.spent if self.has_ended else self.granted or Decimal(0)


@dataclass
class History:
    """A world, the plans that are decided and not written, and the fates of all pods."""

    fake: FakeWorld
    clock: JumpingClock
    plans: dict[ObjectRef, Plan] = field(default_factory=dict)
    pods: dict[str, PodFate] = field(default_factory=dict)
    working: dict[str, set[str]] = field(default_factory=dict)
    """The pods that may have worked when the latest plan of a run was decided, by the run."""
    unreported: dict[str, set[str]] = field(default_factory=dict)
    """Those whose Job was gone then: all that they may cost counts."""
    first_starts: dict[str, datetime] = field(default_factory=dict)
    """The first start of each run that its Mission has recorded."""

    @classmethod
    async def start(cls) -> History:
        cells = [{"name": "lead", "spec": {"mode": "Task", "mind": MIND}}]
        completion = {"maxAttempts": 3, "timeout": f"{TIMEOUT // timedelta(hours=1)}h"}
        bodies = [
            teams.work(
                ref.name,
                completion=completion,
                startDeadline="2h",
                budget={"maxCost": float(OWN[ref.name])} if ref.name in OWN else None,
            )
            for ref in REFS
        ]
        budget = {"maxTotalCost": float(SHARED)}
        fake = fake_world(teams.team(cells=cells, budget=budget), *bodies)
        await teams.settle_team(fake)
        clock = JumpingClock(fake.clock)
        return cls(replace(fake, world=replace(fake.world, clock=clock)), clock)

    async def take(self, verb: str, number: int, amount: int) -> None:
        ref = REFS[number]
        if verb in ("kill", "wait", "refuse", "jump"):
            self.disturb(verb, amount)
        elif ref not in self.fake.cluster.refs("Mission"):
            return
        elif verb == "work":  # until a pod has spent something, unless something prevents it
            for each in ("pass", "create", "pass", "start"):
                await self.take(each, number, amount)
        elif verb in ("pass", "observe", "write"):
            await self.operate(ref, verb, amount)
        elif verb in USER:
            self.edit(ref, verb)
        else:
            self.play_cluster(ref, verb, Decimal(amount) / 4)

    def disturb(self, verb: str, amount: int) -> None:
        if verb == "kill":
            self.kill()
        elif verb == "wait":
            self.fake.clock.advance((1, 40, 600, 4000, 2)[amount])
        elif verb == "jump":
            self.clock.ahead_s = JUMPS_S[amount]
        else:
            self.fake.cluster.fail("patch", REFUSALS[amount % len(REFUSALS)], kind="Pod")

    # The operator

    async def operate(self, ref: ObjectRef, verb: str, amount: int) -> None:
        if verb == "write":
            await self.write(ref, amount if amount < 2 else None)
            return
        await self.observe(ref)
        for _ in range(2 if verb == "pass" else 0):
            await self.write(ref, None)
            await self.observe(ref)

    def kill(self) -> None:
        """End the operator; another one remembers nothing, and no plan is written any more."""
        self.plans.clear()
        self.fake = restarted(self.fake)

    async def observe(self, ref: ObjectRef) -> None:
        seen = await missions.CONTROLLER.observe(self.fake.world, ref)
        if seen is None:
            return
        if not self.has_ended(ref):
            self.note_working(ref)
        self.plans[ref] = missions.CONTROLLER.decide(seen.observed, self.clock.now())

    def note_working(self, ref: ObjectRef) -> None:
        run_id, jobs = self.run_of(ref), {job["metadata"]["uid"]: job for job in self.jobs(ref)}
        open_pods = {
            uid: pod for uid, pod in self.pods.items() if not pod.has_ended and not pod.is_lost
        }
        self.unreported[run_id] = {
            uid for uid, pod in open_pods.items() if pod.granted and pod.job_uid not in jobs
        }
        self.working[run_id] = open_pods.keys() - self.unreported[run_id]

    async def write(self, ref: ObjectRef, count: int | None) -> None:
        """Write a plan, or its first actions and then end the operator."""
        plan = self.plans.pop(ref, Plan())
        actions = plan.actions if count is None else plan.actions[:count]
        with contextlib.suppress(errors.ClusterError):
            await executor.execute(Plan(actions), self.fake.world)
        if len(actions) < len(plan.actions):
            self.kill()

    # The Job controller, the kubelet, and the garbage collector

    def play_cluster(self, ref: ObjectRef, verb: str, part: Decimal) -> None:
        self.read_grants()
        if verb == "create":
            self.create_pod(ref, at_most=2 if part == 1 else 1)
        elif verb == "lose the job":
            self.lose_jobs(ref, at_once=2 * part < 1, is_foreground=part == 1)
        elif verb == "remove":
            for ended in [pod for pod in self.existing(ref) if pod.has_ended][:1]:
                self.remove(ref, ended)
        else:
            for pod in [pod for pod in self.existing(ref) if not pod.has_ended][:1]:
                self.play_kubelet(ref, pod, verb, part)

    def play_kubelet(self, ref: ObjectRef, pod: PodFate, verb: str, part: Decimal) -> None:
        if verb == "vanish":
            self.remove(ref, pod)
        elif verb == "start":
            self.start_pod(pod, part)
        elif verb == "evict":
            self.evict(ref, pod)
        elif pod.has_started:  # the task finishes or fails
            self.end_attempt(ref, pod, is_success=verb == "finish")

    def create_pod(self, ref: ObjectRef, *, at_most: int) -> None:
        """Create a pod of an open Job from its template; one that terminates may still work."""
        for job in self.jobs(ref):
            uid = job["metadata"]["uid"]
            is_open = not (job.get("status") or {}).get("conditions")
            is_open = is_open and "deletionTimestamp" not in job["metadata"]
            pods = [p for p in self.existing(ref) if p.job_uid == uid and not p.has_ended]
            if not is_open or len(pods) >= at_most:
                continue
            self.fake.cluster.set_status(
                ObjectRef("Job", "demo", job["metadata"]["name"]),
                {"startTime": teams.stamp(self.fake)},
            )
            self._create(ref, job, f"{ref.name}-{len(self.pods)}")

    def _create(self, ref: ObjectRef, job: Body, uid: str) -> None:
        template, owner = job["spec"]["template"], dict(job["metadata"])
        reference = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
        self.fake.cluster.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"pod-{uid}",
                    "namespace": "demo",
                    "uid": uid,
                    "creationTimestamp": teams.stamp(self.fake),
                    "labels": template["metadata"]["labels"],
                    "annotations": template["metadata"].get("annotations") or {},
                    "ownerReferences": [{**reference, "name": owner["name"], "uid": owner["uid"]}],
                },
                "spec": {"schedulingGates": template["spec"].get("schedulingGates") or []},
                "status": {"phase": "Pending"},
            }
        )
        pod = ObjectRef("Pod", "demo", f"pod-{uid}")
        self.pods[uid] = PodFate(pod, self.run_of(ref), owner["uid"])

    def start_pod(self, pod: PodFate, part: Decimal) -> None:
        """Let a pod whose gate is open start, or spend more."""
        if pod.granted is None:
            return
        pod.has_started = True
        pod.spent = max(pod.spent, pod.granted * part)
        self.fake.cluster.set_status(pod.ref, teams.running())

    def evict(self, ref: ObjectRef, pod: PodFate) -> None:
        """End a pod as an eviction does: one behind its gate is deleted, others report."""
        if pod.granted is None:
            self.remove(ref, pod)
            return
        failure = AgentFailure(FailureClass.INTERRUPTED, "SIGTERM")
        state = teams.container(_ended(75, pod, failure)) if pod.has_started else {}
        self.fake.cluster.set_status(
            pod.ref, {"phase": "Failed", "conditions": [DISRUPTED], **state}
        )
        pod.has_ended = True

    def end_attempt(self, ref: ObjectRef, pod: PodFate, *, is_success: bool) -> None:
        job = next((j for j in self.jobs(ref) if j["metadata"]["uid"] == pod.job_uid), None)
        if job is None:
            return
        failure = None if is_success else AgentFailure(FailureClass.MODEL_UNAVAILABLE, "down")
        state = teams.container(_ended(0 if is_success else 1, pod, failure))
        phase = "Succeeded" if is_success else "Failed"
        self.fake.cluster.set_status(pod.ref, {"phase": phase, **state})
        pod.has_ended = True
        for other in [each for each in self.existing(ref) if each.job_uid == pod.job_uid]:
            if not other.has_ended:  # the Job controller deletes the pods of an ended Job
                self.evict(ref, other)
        at = teams.stamp(self.fake)
        type_ = "Complete" if is_success else "Failed"
        condition = {"type": type_, "status": "True", "reason": "", "lastTransitionTime": at}
        completed = {"completionTime": at} if is_success else {}
        name = ObjectRef("Job", "demo", job["metadata"]["name"])
        self.fake.cluster.set_status(
            name, {"startTime": at, "conditions": [condition], **completed}
        )

    def remove(self, ref: ObjectRef, pod: PodFate) -> None:
        """Remove a pod; its report is lost unless the Mission has it."""
        self.read_grants()
        pod.is_lost = not self.is_recorded(ref, pod)
        self.fake.cluster.vanish(pod.ref)

    def lose_jobs(self, ref: ObjectRef, *, at_once: bool, is_foreground: bool) -> None:
        """Let a person delete the Jobs of a mission; their pods are gone at once, or terminate."""
        for job in self.jobs(ref):
            name = ObjectRef("Job", "demo", job["metadata"]["name"])
            if is_foreground:
                self.fake.cluster.edit(name, {"metadata": {"finalizers": ["foregroundDeletion"]}})
            self.fake.cluster.remove(name)
        for pod in list(self.existing(ref)):
            if at_once:
                self.remove(ref, pod)
            else:
                teams.terminate(self.fake, pod.ref)

    def collect_garbage(self) -> None:
        """Remove pods that had to end, Jobs whose pods are gone, and pods whose Job is gone."""
        for ref in REFS:
            for pod in list(self.existing(ref)):
                if "deletionTimestamp" in self.fake.cluster.read(pod.ref)["metadata"]:
                    self.remove(ref, pod)
        for name in self.job_refs():
            job = self.fake.cluster.read(name)["metadata"]
            owned = [pod for ref in REFS for pod in self.existing(ref) if pod.job_uid == job["uid"]]
            if "deletionTimestamp" in job and not owned:
                self.fake.cluster.vanish(name)
        uids = {self.fake.cluster.read(job)["metadata"]["uid"] for job in self.job_refs()}
        for ref in REFS:
            for pod in [pod for pod in self.existing(ref) if pod.job_uid not in uids]:
                self.remove(ref, pod)

    def edit(self, ref: ObjectRef, verb: str) -> None:
        """Do what a user does."""
        if verb == "delete":
            self.fake.cluster.remove(ref)
        else:
            self.fake.cluster.edit(ref, {"metadata": {"annotations": USER[verb]}})

    # What is true

    def job_refs(self) -> list[ObjectRef]:
        return self.fake.cluster.refs("Job")

    def jobs(self, ref: ObjectRef) -> list[Body]:
        bodies = (self.fake.cluster.read(job) for job in self.job_refs())
        return [body for body in bodies if body["metadata"]["name"].startswith(f"{ref.name}-a")]

    def existing(self, ref: ObjectRef) -> Iterator[PodFate]:
        """Return the pods of a mission that exist, oldest first."""
        names = set(self.fake.cluster.refs("Pod"))
        return (
            pod
            for uid, pod in self.pods.items()
            if pod.ref in names and uid.startswith(f"{ref.name}-")
        )

    def annotations(self, ref: ObjectRef) -> Body:
        if ref not in self.fake.cluster.refs("Mission"):
            return {}
        return self.fake.cluster.read(ref)["metadata"].get("annotations") or {}

    def run_of(self, ref: ObjectRef) -> str:
        return str(self.annotations(ref).get(labels.RUN_ID, ""))

    def has_ended(self, ref: ObjectRef) -> bool:
        annotations = self.annotations(ref)
        return not annotations or labels.OUTCOME in annotations

    def is_recorded(self, ref: ObjectRef, pod: PodFate) -> bool:
        """Whether the Mission has the report of a pod, or ended its attempt or run without it."""
        if self.has_ended(ref):
            return True
        records = json.loads(self.annotations(ref).get(labels.ATTEMPTS) or "[]")
        job = next((j for j in self.jobs(ref) if j["metadata"]["uid"] == pod.job_uid), None)
        number = int(job["metadata"]["name"].rpartition("-a")[2]) if job is not None else None
        is_over = any(r["number"] == number and r["state"] in ("Failed",) for r in records)
        uid = next(uid for uid, each in self.pods.items() if each is pod)
        return is_over or any((r.get("pods") or {}).get(uid) for r in records)

    def read_grants(self) -> None:
        """Note what each pod whose gate was opened may cost."""
        for pod in self.pods.values():
            if pod.granted is None and pod.ref in self.fake.cluster.refs("Pod"):
                body = self.fake.cluster.read(pod.ref)
                if not body["spec"].get("schedulingGates"):
                    pod.granted = Decimal(body["metadata"]["annotations"][labels.MAX_COST])

    def counted(self) -> dict[str, Decimal]:
        """Return the cost of each run that is counted on the cell."""
        annotations = self.fake.cluster.read(CELL)["metadata"].get("annotations") or {}
        text = annotations.get(labels.CELL_USAGE)
        usage = json.loads(text) if text else {"cost": "0", "runs": []}
        runs = [(run_id, Decimal(cost)) for run_id, _, cost in usage["runs"]]
        assert len(runs) == len(dict(runs)), "a run is counted twice"
        assert Decimal(usage["cost"]) == sum((cost for _, cost in runs), Decimal(0))
        return dict(runs)

    # What must hold at any time

    def check(self) -> None:
        self.read_grants()
        counted, exposures = self.counted(), self.exposures()
        is_open = self.open_runs(counted)
        open_costs = sum((exposures.get(run_id, Decimal(0)) for run_id in is_open), Decimal(0))
        total = sum(counted.values(), Decimal(0)) + open_costs
        assert total <= SHARED, f"the team: {counted} and {exposures}"
        for ref in REFS:
            if ref.name in OWN and (run_id := self.run_of(ref)):
                assert exposures.get(run_id, Decimal(0)) <= OWN[ref.name], f"{ref}: {exposures}"
        for ref in REFS:
            message = self.annotations(ref).get(labels.ENDING, "")
            has_worked = any(p.run_id == self.run_of(ref) and p.granted for p in self.pods.values())
            assert not (has_worked and "not started within" in message), f"{ref}: {message}"
        for run_id in exposures.keys() - is_open:
            self.check_count(run_id, counted.get(run_id, Decimal(0)))
        for ref in REFS:
            self.check_jobs(ref)

    def check_jobs(self, ref: ObjectRef) -> None:
        """Check that pods of two Jobs never work beside each other, and that all share one time."""
        working = {pod.job_uid for pod in self.existing(ref) if not pod.has_ended and pod.granted}
        assert len(working) <= 1, f"{ref}: pods of {working} work beside each other"
        run_id = self.run_of(ref)
        records = json.loads(self.annotations(ref).get(labels.ATTEMPTS) or "[]")
        if records:
            self.first_starts.setdefault(run_id, _time(records[0]["startedAt"]))
        for job in self.jobs(ref):
            seconds = job["spec"]["template"]["spec"]["activeDeadlineSeconds"]
            created = _time(job["metadata"]["creationTimestamp"])
            ends_at = self.first_starts.get(run_id, created) + TIMEOUT
            late = created + timedelta(seconds=seconds) - ends_at
            assert late <= timedelta(seconds=1 + max(JUMPS_S)), f"{ref}: a Job ends {late} late"

    def open_runs(self, counted: Mapping[str, Decimal]) -> set[str]:
        """Return the runs that have not ended, or have a cost that is still to be counted."""
        annotations = self.fake.cluster.read(FORMATION)["metadata"].get("annotations") or {}
        entries = json.loads(annotations.get(labels.RESERVATIONS) or '{"runs": []}')["runs"]
        running = {self.run_of(ref) for ref in REFS if not self.has_ended(ref)}
        return running | {run_id for run_id, *_ in entries} - set(counted)

    def exposures(self) -> dict[str, Decimal]:
        exposures: dict[str, Decimal] = {}
        for pod in self.pods.values():
            exposures[pod.run_id] = exposures.get(pod.run_id, Decimal(0)) + pod.exposure
        return exposures

    def check_count(self, run_id: str, cost: Decimal) -> None:
        """Check that a run counts each report once; the rest of what it may cost is an estimate."""
        working = self.working.get(run_id, set())
        ended = [p for uid, p in self.pods.items() if p.run_id == run_id and uid not in working]
        spent = sum((pod.spent for pod in ended), Decimal(0))
        assert cost >= spent, f"{run_id}: counts {cost}, and its pods have spent {spent}"
        unreported = self.unreported.get(run_id, set())
        if not unreported and not any(pod.is_lost for pod in ended):
            assert cost == spent, f"{run_id}: counts {cost}, and its pods have spent {spent}"

    async def drain(self) -> None:
        """Let every run end: each due gate is opened, and no reservation is left."""
        self.fake = restarted(self.fake)
        self.fake.cluster.stop_failing()
        for ref in self.fake.cluster.refs("Mission"):
            self.edit(ref, "resume")
        for _ in range(ROUNDS):
            self.collect_garbage()
            for number, ref in enumerate(REFS):
                await self.take("create", number, 0)
                for _ in range(3):
                    await self.take("pass", number, 0)
                self.check()
                assert not self.due_gates(ref), f"{ref}: a gate that is due stays closed"
                await self.take("start", number, 1)
                await self.take("finish", number, 0)
            self.fake.clock.advance(2)
            if all(self.has_ended(ref) for ref in REFS):
                break
        assert all(self.has_ended(ref) for ref in REFS)
        for ref in REFS:
            await self.take("pass", REFS.index(ref), 0)
            await self.take("pass", REFS.index(ref), 0)
        self.check()
        formation = self.fake.cluster.read(FORMATION)["metadata"].get("annotations") or {}
        assert labels.RESERVATIONS not in formation

    def due_gates(self, ref: ObjectRef) -> list[ObjectRef]:
        """Return the pods of an open run that wait behind their gate for no other pod."""
        if self.has_ended(ref):
            return []
        pods = [pod for pod in self.existing(ref) if not pod.has_ended]
        self.read_grants()
        return [pod.ref for pod in pods if pod.granted is None and len(pods) == 1]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _ended(code: int, pod: PodFate, failure: AgentFailure | None) -> Body:
    usage = AgentUsage(turns=1, cost=pod.spent)
    result = AgentResult(usage=usage, failure=failure)
    message = agent_results.serialize(result, limit_bytes=4096)
    return {"terminated": {"exitCode": code, "reason": "Error", "message": message}}


async def _live(history: list[tuple[str, int, int]]) -> None:
    life = await History.start()
    for step in history:
        await life.take(*step)
        life.check()
    await life.drain()


@SETTINGS
@given(HISTORY)
@example(OLD_JOB_IS_DELETED)
@example(REPORT_FOLLOWS_THE_JOB)
@example(JOB_GOES_WITH_ITS_PODS)
def test_no_history_of_gated_pods_exceeds_a_limit_or_counts_twice(
    history: list[tuple[str, int, int]],
) -> None:
    asyncio.run(_live(history))
