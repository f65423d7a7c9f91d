"""Records the frozen cluster: the objects of a busy namespace as the operator left them.

    python -m tests.contract.compatibility.record_memory_cluster

writes `data/objects.yaml.xz`. The file there comes from commit 573ae85 and stays as it is: it
stands for what an earlier version left in a user's cluster. The operator's own reconcilers made
the objects, over the API server in memory; Job and Deployment controllers and the kubelet are
played.
"""

from __future__ import annotations

import asyncio
import json
import lzma
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from kais import labels
from kais_operator.controllers.base import Controller
from kais_operator.controllers.blueprint import observe as blueprint
from kais_operator.controllers.blueprint_instance import observe as blueprint_instance
from kais_operator.controllers.blueprint_revision import observe as blueprint_revision
from kais_operator.controllers.cell.observe import cell
from kais_operator.controllers.formation import observe as formation
from kais_operator.controllers.knowledge_scope import observe as knowledge_scope
from kais_operator.controllers.mission.observe import mission
from kais_operator.planning.plan import Body, ObjectRef
from knowledge_client.models import Extraction, PrincipalIn, Run, ScopeConfig
from tests.fakes import blueprints, busy_namespace, services, teams
from tests.fakes.cluster import ref_of
from tests.fakes.knowledge import recalled_fact
from tests.fakes.world import FakeWorld, fake_world

OBJECTS = Path(__file__).with_name("data") / "objects.yaml.xz"
NAMESPACE = "demo"
RECONCILERS: tuple[Controller, ...] = (
    blueprint.CONTROLLER,
    blueprint_revision.CONTROLLER,
    blueprint_instance.CONTROLLER,
    knowledge_scope.CONTROLLER,
    formation.CONTROLLER,
    cell.CONTROLLER,
    mission.CONTROLLER,
)


def frozen_world() -> FakeWorld:
    """Give the recorded namespace and store to an operator that has just started."""
    result = yaml.safe_load(lzma.decompress(OBJECTS.read_bytes()))
    fake = fake_world(*result["objects"])
    fake.clock.advance(
        (datetime.fromisoformat(result["recorded_at"]) - fake.clock.now()).total_seconds() + 1
    )
    store, realm = result["store"], fake.knowledge.realms[NAMESPACE]
    realm.runs.update({run["run_id"]: Run.model_validate(run) for run in store["runs"]})
    for extraction in store["extractions"]:
        realm.extractions[extraction["run_id"]] = Extraction.model_validate(extraction)
    for extraction in store["principals"]:
        fake.knowledge.principals[extraction["subject"]["username"]] = PrincipalIn.model_validate(
            extraction
        )
    for path, config in store["scopes"].items():
        fake.knowledge.scopes[path] = ScopeConfig.model_validate(config)
    return fake


async def settle(fake: FakeWorld) -> None:
    """Make passes over everything until one writes nothing."""
    for _ in range(40):
        initial_count = len(fake.cluster.writes)
        for reconciler in RECONCILERS:
            for ref in fake.cluster.refs(reconciler.kind):
                if ref in fake.cluster.refs(reconciler.kind):
                    await fake.step(reconciler, ref)
        _collect(fake)
        if len(fake.cluster.writes) == initial_count:
            return
    raise AssertionError(f"it does not settle: {fake.cluster.writes[-10:]}")


def _collect(fake: FakeWorld) -> None:
    """Delete what a Job owned that is gone, as the garbage collector does."""
    bodies = [fake.cluster.read(ref) for ref in fake.cluster.refs()]
    uids = {body["metadata"]["uid"] for body in bodies}
    for body in bodies:
        owners = body["metadata"].get("ownerReferences") or ()
        if any(owner["kind"] == "Job" and owner["uid"] not in uids for owner in owners):
            fake.cluster.vanish(ref_of(body))


def job_of(fake: FakeWorld, name: str, attempt: int = 1) -> Body:
    """Read the Job of an attempt."""
    return fake.cluster.read(teams.job_ref(attempt, name))


def tell(fake: FakeWorld, name: str, status: Body, attempt: int = 1) -> None:
    """Make the pod of an attempt, as its Job's controller does, or change its status."""
    job = job_of(fake, name, attempt)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
             "uid": job["metadata"]["uid"], "controller": True}  # fmt: skip
    template = job["spec"]["template"]
    metadata = {"name": f"{owner['name']}-xyz12", "namespace": NAMESPACE,
                "labels": template["metadata"]["labels"], "ownerReferences": [owner]}  # fmt: skip
    spec = {**template["spec"], "nodeName": "node-1"}
    fake.cluster.put(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
    )


def run(fake: FakeWorld, name: str, attempt: int = 1) -> None:
    """Have the pod of an attempt run."""
    state = {"running": {"startedAt": teams.stamp(fake)}}
    tell(fake, name, {"phase": "Running", **teams.container(state)}, attempt)


def end(fake: FakeWorld, name: str, code: int, message: str, attempt: int = 1) -> None:
    """Have the pod of an attempt and its Job end."""
    at = teams.stamp(fake)
    state = {"exitCode": code, "message": message, "startedAt": at, "finishedAt": at,
             "reason": "Error" if code else "Completed"}  # fmt: skip
    phase, condition = ("Failed", "Failed") if code else ("Succeeded", "Complete")
    tell(fake, name, {"phase": phase, **teams.container({"terminated": state})}, attempt)
    reported_condition = {"type": condition, "status": "True", "lastTransitionTime": at,
            "reason": "BackoffLimitExceeded" if code else ""}  # fmt: skip
    status: Body = {"startTime": at, "conditions": [reported_condition]}
    if not code:
        status["completionTime"] = at
    fake.cluster.set_status(teams.job_ref(attempt, name), status)


async def live(fake: FakeWorld) -> None:
    """Bring every mission to where the file shall have it."""
    await settle(fake)
    for name in ("solo", "duo"):
        ref = ObjectRef("Deployment", NAMESPACE, name)
        services.pod(fake, ref, status=services.ready())
    await settle(fake)
    for name in ("running", "second-attempt"):
        run(fake, name)
    fake.clock.advance(20)
    for name in ("use-ended", "succeeded", "again", "reviewed"):
        end(fake, name, 0, "two pods explained")
    for name in ("second-attempt", "failed"):
        end(fake, name, 1, "no such pod")
    aborted = ObjectRef("Mission", NAMESPACE, "aborted")
    fake.cluster.edit(aborted, {"metadata": {"annotations": {labels.ABORT: "true"}}})
    await settle(fake)
    # A second revision of the Blueprint, and a use of it that goes on.
    texts = {"objective": "explain {{ topic }} again", "entrypoint": {"cell": "worker"}}
    fake.cluster.edit(ObjectRef("Blueprint", NAMESPACE, "team"), {"spec": {"mission": texts}})
    fake.cluster.put(blueprints.instance("use-running"))
    reference = ObjectRef("Mission", NAMESPACE, "again")
    fake.cluster.edit(reference, {"metadata": {"annotations": {labels.RERUN: "once-more"}}})
    await settle(fake)
    run(fake, "use-running")
    run(fake, "second-attempt", 2)
    fake.clock.advance(20)
    _end_round(fake, "between-rounds")
    fake.knowledge.extraction_state = "pending"
    end(fake, "extracting", 0, "what is learnt is not extracted yet")
    await settle(fake)
    # The operator stopped before it saw this end.
    end(fake, "between-jobs", 1, "no such pod")


def _end_round(fake: FakeWorld, name: str) -> None:
    keys = [command.key for command in fake.containers.started if command.mission.name == name]
    process, _ = fake.containers.known[keys[-1]]
    ended = replace(process, ended_at=fake.clock.now(), exit_code=1, output_tail="2 tests fail")
    fake.containers.known[keys[-1]] = ended, ""


def dumped(fake: FakeWorld) -> dict[str, Any]:
    """Give the objects of the namespace, and what the operator told the store of them."""
    realm = fake.knowledge.realms[NAMESPACE]
    return {
        "recorded_at": fake.clock.now().isoformat(),
        "objects": [
            fake.cluster.read(ref) for ref in fake.cluster.refs() if ref.kind not in _LEFT_OUT
        ],
        "store": {
            "runs": [_json(run) for run in realm.runs.values()],
            "extractions": [_json(extraction) for extraction in realm.extractions.values()],
            "principals": [_json(extraction) for extraction in fake.knowledge.principals.values()],
            "scopes": {
                path: _json(extraction) for path, extraction in fake.knowledge.scopes.items()
            },
        },
    }


_LEFT_OUT = ("Namespace", "Event")


def _json(model: Any) -> Any:
    return model.model_dump(mode="json", exclude_none=True, by_alias=True)


async def record() -> None:
    """Write the file."""
    fake = fake_world(*busy_namespace.objects(round_attempts=4))
    now = fake.clock.now()
    fake.knowledge.facts = [recalled_fact("fact-1", "The build needs Java 21.", at=now)]
    await live(fake)
    text = yaml.safe_dump(json.loads(json.dumps(dumped(fake))), sort_keys=False)
    OBJECTS.write_bytes(lzma.compress(text.encode()))


if __name__ == "__main__":
    asyncio.run(record())
