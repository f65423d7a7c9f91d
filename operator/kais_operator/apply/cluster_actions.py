"""The actions of a Plan that write to the cluster, one function for each.

Each write but a creation names the object that the decision was made from, by UID or
resourceVersion, so it fails if that object was replaced or changed. The errors are those of
`ports.Cluster`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kais_operator import errors
from kais_operator.planning import plan as plans
from kais_operator.planning.plan import Body
from kais_operator.ports import World


async def _create(world: World, action: plans.Create) -> Body:
    return await world.cluster.create(action.body)


async def _apply(world: World, action: plans.Apply) -> Body:
    return await world.cluster.apply(action.body, uid=action.uid)


async def _delete(world: World, action: plans.Delete) -> Body | None:
    return await world.cluster.delete(
        action.ref, uid=action.uid, resource_version=action.resource_version
    )


async def patch_metadata(world: World, action: plans.PatchMetadata) -> Body:
    """Change the parts of the metadata that the action names; the others stay as they are.

    Annotations and labels are merged, and None removes one. The lists of finalizers and of owner
    references replace the present ones.
    """
    patch: Body = {}
    if action.annotations:
        patch["annotations"] = dict(action.annotations)
    if action.labels:
        patch["labels"] = dict(action.labels)
    if action.finalizers is not None:
        patch["finalizers"] = list(action.finalizers)
    if action.owner_references is not None:
        patch["ownerReferences"] = list(action.owner_references)
    return await world.cluster.patch_metadata(
        action.ref, patch, resource_version=action.resource_version
    )


async def _patch_spec(world: World, action: plans.PatchSpec) -> Body:
    metadata = {"annotations": dict(action.annotations)}
    try:
        return await world.cluster.patch_spec(
            action.ref, action.spec, metadata=metadata, resource_version=action.resource_version
        )
    except (errors.Forbidden, errors.Invalid) as exc:
        raise type(exc)(_explained(exc, action)) from exc
    except errors.ClusterUnavailable as exc:
        if not action.blocked:
            raise
        raise errors.PatchUnavailable(_explained(exc, action)) from exc


def _explained(exc: errors.ClusterError, action: plans.PatchSpec) -> str:
    """Say what waits for a patch that failed, and what to do."""
    return f"{action.blocked}: {exc}; {action.remedy}" if action.blocked else str(exc)


_Write = Callable[[World, Any], Awaitable[Body | None]]
ACTIONS: Mapping[type, _Write] = {
    plans.Create: _create,
    plans.Apply: _apply,
    plans.Delete: _delete,
    plans.PatchMetadata: patch_metadata,
    plans.PatchSpec: _patch_spec,
}
"""The function of each action. It returns the object as written; None if it was deleted."""
