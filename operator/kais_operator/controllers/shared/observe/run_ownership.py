"""Determine whose run the annotations of a Mission or BlueprintInstance name.

See `planning.run_stamps`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kais import labels, names
from kais_operator.controllers.mission.decide import attempt_state
from kais_operator.planning import children, run_stamps
from kais_operator.planning.plan import Body, ObjectRef
from kais_operator.ports import World
from knowledge_client import errors, models


@dataclass(frozen=True)
class RunOwnership:
    """An object with only those run annotations that are its own.

    Attributes:
        body: the object; without the annotations of a run that belongs to another object.
        copied: the names of these annotations, which are removed when the object's run starts.
        problem: why the owner of the run cannot be determined.
    """

    body: Body
    copied: tuple[str, ...] = ()
    problem: str | None = None


async def of_mission(world: World, body: Body) -> RunOwnership:
    """Check the stamp of a Mission; an older stamp by its UIDs, its Jobs, or the ledger."""
    is_owned = run_stamps.is_own(children.ref_of(body), body)
    if is_owned is None and labels.RUN_ID in run_stamps.annotations_of(body):
        uids = [body["metadata"]["uid"], *await _owner(world, body)]
        is_derived = run_stamps.is_derived(body, uids) or await _has_job(world, body)
        if not is_derived:
            return await _by_ledger(world, body)
    return _stamped(body, is_owned=is_owned is not False)


async def of_instance(world: World, body: Body) -> RunOwnership:
    """Check the stamp of an instance; an older stamp by its UID or the ledger."""
    is_owned = run_stamps.is_own(children.ref_of(body), body)
    is_old = is_owned is None and labels.RUN_ID in run_stamps.annotations_of(body)
    if is_old and not run_stamps.is_derived(body, [body["metadata"]["uid"]]):
        return await _by_ledger(world, body)
    return _stamped(body, is_owned=is_owned is not False)


def is_run_of(run: models.Run, body: Body) -> bool:
    """Whether the ledger has this run for this Mission or instance."""
    metadata = body["metadata"]
    owner_name = run.instance if body["kind"] == "BlueprintInstance" else run.mission
    return run.namespace == metadata["namespace"] and owner_name in (None, metadata["name"])


def _stamped(body: Body, *, is_owned: bool) -> RunOwnership:
    if is_owned:
        return RunOwnership(body)
    return RunOwnership(run_stamps.without_run(body), run_stamps.run_annotations(body))


async def _owner(world: World, body: Body) -> list[str]:
    """Return the UID of a Mission's instance, if that exists and has the Mission's name."""
    metadata = body["metadata"]
    ref = ObjectRef("BlueprintInstance", metadata["namespace"], metadata["name"])
    owners = [o["uid"] for o in metadata.get("ownerReferences") or () if o.get("controller")]
    instance = await world.cluster.get(ref) if owners else None
    return [uid for uid in owners if instance and instance["metadata"]["uid"] == uid]


async def _has_job(world: World, body: Body) -> bool:
    """Whether a Job with this Mission's label belongs to the stamped run."""
    metadata = body["metadata"]
    selector = f"{labels.MISSION}={names.label_value(metadata['name'])}"
    jobs = await world.cluster.list("Job", metadata["namespace"], labels=selector)
    run_id = run_stamps.annotations_of(body)[labels.RUN_ID]
    return any(attempt_state.run_of(job) == run_id for job in jobs)


async def _by_ledger(world: World, body: Body) -> RunOwnership:
    """Check a stamp by the ledger; a run that it does not have belongs to no other object."""
    run_id = run_stamps.annotations_of(body)[labels.RUN_ID]
    try:
        run = await _run_of(world, run_id, namespace=body["metadata"]["namespace"])
        if run is None:
            return _stamped(body, is_owned=not await _is_stamped_elsewhere(world, run_id))
    except errors.KnowledgeError as exc:
        problem = (
            f"whose run {labels.RUN_ID} names is not known: an older version stamped it, on an "
            f"object with another UID, and the knowledge service cannot be asked: {exc}"
        )
        return RunOwnership(body, problem=problem)
    return _stamped(body, is_owned=is_run_of(run, body))


async def _run_of(world: World, run_id: str, *, namespace: str | None) -> models.Run | None:
    try:
        return await world.knowledge.get_run(run_id, namespace=namespace)
    except errors.NotFound:
        return None


async def _is_stamped_elsewhere(world: World, run_id: str) -> bool:
    """Whether an object of another namespace has this run, so that the stamp was copied.

    Agents open sessions under ids of their choice; such a session proves nothing.
    """
    try:
        run = await _run_of(world, run_id, namespace=None)
    except errors.Conflict:
        return True  # several missions, or several sessions, have this run-id
    return run is not None and (run.kind == "mission" or run.instance is not None)
